package main

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/internal/testserver"
)

// TestTerminalWait: on a terminal a run says what it waits for, and who has it.
func TestTerminalWait(t *testing.T) {
	t.Parallel()
	address := database(t, testserver.MySQL)
	store := open(t, address)
	must(t, store.Migrate(t.Context()))
	locks, err := rowlock.New(store, rowlock.Options{Owner: "web1:812"})
	must(t, err)
	t.Cleanup(func() { _ = locks.Close(t.Context()) })
	lease, err := locks.TryAcquire(t.Context(), "k")
	must(t, err)
	keyboard, screen := terminal(t)
	cmd := exec.Command(filepath.Join(bin, "rowlock"), "run", "k", "--", "echo", "ran")
	cmd.Env = append(os.Environ(), "ROWLOCK_DB="+address)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = screen, screen, screen
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 0}
	must(t, cmd.Start())
	must(t, screen.Close())
	var shown said
	go func() { _, _ = io.Copy(&shown, keyboard) }() // until the terminal is closed
	shown.await(t, `rowlock: waiting for "k", held by web1:812 since `)
	if !strings.HasPrefix(shown.String(), "rowlock: waiting") {
		t.Errorf("it says %q", shown.String())
	}
	must(t, lease.Release(t.Context()))
	shown.await(t, "\nran\r\n")
	must(t, cmd.Wait())
}
