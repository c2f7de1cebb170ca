//go:build unix

package main

import "syscall"

func init() {
	signals["USR1"], signals["USR2"], signals["CONT"] = syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGCONT
}
