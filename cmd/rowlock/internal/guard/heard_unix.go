//go:build unix

package guard

import (
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

// heard are the signals that came to the guard itself. Nobody sends it one alone: they come to its
// process group, from a terminal or by kill(1). If that is the command's group too, the command
// has had them, and is not sent them again.
type heard struct {
	mu sync.Mutex
	at map[os.Signal]time.Duration // the last time, by Now
}

// hear keeps signals that go to a whole process group from ending or stopping the guard, and
// notes them. A signal that is ignored stays so, for the command too; one that has a handler is as ever
// for the command.
func hear() *heard {
	var signals []os.Signal
	for _, s := range []os.Signal{
		syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU,
		syscall.SIGCONT, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGALRM, syscall.SIGPIPE,
	} {
		if !signal.Ignored(s) {
			signals = append(signals, s)
		}
	}
	h := &heard{at: make(map[os.Signal]time.Duration)}
	c := make(chan os.Signal, 16)
	signal.Notify(c, signals...)
	go func() {
		for s := range c {
			h.mu.Lock()
			h.at[s] = Now()
			h.mu.Unlock()
		}
	}()
	return h
}

// lately reports whether a signal has come to the process group of the guard with the one that the
// first process tells of. That one may be ahead of it by a moment.
func (h *heard) lately(s syscall.Signal) bool {
	time.Sleep(heardPause)
	h.mu.Lock()
	defer h.mu.Unlock()
	at, ok := h.at[s]
	return ok && Now()-at < heardTogether
}

const (
	heardPause    = 10 * time.Millisecond
	heardTogether = time.Second
)
