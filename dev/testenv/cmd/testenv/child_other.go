//go:build !unix

package main

import (
	"os"
	"os/exec"
)

var endSignals = []os.Signal{os.Interrupt}

func signalNumber(os.Signal) int { return 2 }

// ownGroup does nothing: Ctrl-C reaches the command by itself.
func ownGroup(*exec.Cmd) (pass func(os.Signal), sweep func()) {
	return func(os.Signal) {}, func() {}
}

func exitCodeOf(state *os.ProcessState) int { return state.ExitCode() }
