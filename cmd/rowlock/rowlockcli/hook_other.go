//go:build !unix

package rowlockcli

import "os/exec"

// ownGroup does nothing: the command is killed alone.
func ownGroup(*exec.Cmd) {}
