package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/internal/testserver"
)

// TestSignalWhileWaiting: each signal that ends a program ends the wait for the key, with its exit code, and the command is
// not run.
func TestSignalWhileWaiting(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no signals")
	}
	t.Parallel()
	address := database(t, testserver.MySQL)
	store := open(t, address)
	must(t, store.Migrate(t.Context()))
	locks, err := rowlock.New(store, rowlock.Options{})
	must(t, err)
	t.Cleanup(func() { _ = locks.Close(t.Context()) })
	for signal, want := range map[syscall.Signal]int{syscall.SIGTERM: 143, syscall.SIGINT: 130, syscall.SIGHUP: 129, syscall.SIGQUIT: 131} {
		key := signal.String()
		_, err := locks.TryAcquire(t.Context(), key)
		must(t, err)
		cmd := exec.Command(filepath.Join(bin, "rowlock"), "run", key, "--", "echo", "ran")
		cmd.Env = append(os.Environ(), "ROWLOCK_DB="+address)
		out, err := cmd.StdoutPipe()
		must(t, err)
		must(t, cmd.Start())
		eventually(t, "it waits", func() bool {
			infos, err := store.Inspect(t.Context(), []string{key})
			must(t, err)
			return infos[0].Waiting > 0
		})
		must(t, cmd.Process.Signal(signal))
		var text [3]byte
		n, _ := out.Read(text[:])
		_ = cmd.Wait()
		if code := cmd.ProcessState.ExitCode(); code != want || n > 0 {
			t.Errorf("%v: exit code %d, want %d; it wrote %q", signal, code, want, text[:n])
		}
	}
}
