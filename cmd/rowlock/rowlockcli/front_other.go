//go:build !linux

package rowlockcli

// front is for Linux only.
func (a *app) front() (code int, is bool) { return 0, false }
