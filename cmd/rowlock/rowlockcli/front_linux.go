package rowlockcli

import (
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/rowlock/rowlock/cmd/rowlock/internal/guard"
)

// envFront has two numbers: the process that the shell started, and a file that ends with it.
const envFront = "ROWLOCK_FRONT"

// front makes two processes of a run that is a job of a shell. The shell waits until the process that it has
// started ends, or is stopped, by Ctrl-Z or because it reads in the background. But who renews the lease
// must not stop. So the first process runs the program a second time, and waits for it; the
// terminal stops it, with the command, and the second one goes on. is says that this was the first one.
func (a *app) front() (code int, is bool) {
	if isBehindFront() || !isJob() {
		return 0, false
	}
	alive, end, err := os.Pipe()
	if err != nil {
		return 0, false // it goes without
	}
	defer alive.Close()
	if _, err := unix.FcntlInt(alive.Fd(), unix.F_SETFD, 0); err != nil {
		return 0, false
	}
	signals := make(chan os.Signal, 16)
	listen(signals, []os.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2})
	pid, err := syscall.ForkExec(guard.Itself(os.Args[0]), os.Args, &syscall.ProcAttr{
		Env:   append(os.Environ(), envFront+"="+strconv.Itoa(os.Getpid())+" "+strconv.Itoa(int(alive.Fd()))),
		Files: []uintptr{0, 1, 2},
	})
	if err != nil {
		signal.Stop(signals)
		return 0, false
	}
	go func() {
		for s := range signals {
			_ = syscall.Kill(pid, s.(syscall.Signal)) // one that came to both is the same one: see guard
		}
	}()
	var status syscall.WaitStatus
	for {
		if _, err := syscall.Wait4(pid, &status, 0, nil); err != syscall.EINTR {
			break
		}
	}
	_ = end.Close()
	if status.Signaled() {
		return exitSignal + int(status.Signal()), true
	}
	return status.ExitStatus(), true
}

// isJob reports whether a shell with job control has started this process: it gives each job
// a process group of its own.
func isJob() bool {
	if !guard.Terminal() {
		return false
	}
	group, err := syscall.Getpgid(os.Getppid())
	session, errSession := unix.Getsid(0)
	return err == nil && errSession == nil && group != syscall.Getpgrp() && session != os.Getpid()
}

// isBehindFront reports whether this is the second process. It ends the command when the first one is killed.
func isBehindFront() bool {
	pid, file, _ := strings.Cut(os.Getenv(envFront), " ")
	_ = os.Unsetenv(envFront) // it is not for the command
	n, err := strconv.Atoi(file)
	if pid != strconv.Itoa(os.Getppid()) || err != nil || n <= 2 {
		return false
	}
	syscall.CloseOnExec(n)
	_ = os.WriteFile("/proc/self/comm", []byte(filepath.Base(os.Args[0])), 0) // ps would say "exe"
	alive := os.NewFile(uintptr(n), "pipe")
	go func() {
		_, _ = alive.Read(make([]byte, 1)) // nothing is ever written
		_ = syscall.Kill(os.Getpid(), syscall.SIGTERM)
	}()
	return true
}
