//go:build unix && !linux

package guard

func nameProcess() {} // started by its path, it has its name
