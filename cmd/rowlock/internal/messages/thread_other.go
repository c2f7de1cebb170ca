//go:build !linux

package messages

func ownThread() (done func()) { return func() {} }
