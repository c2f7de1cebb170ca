package rowlockcli

import (
	"io"
	"syscall"
	"testing"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/cmd/rowlock/internal/guard"
	"github.com/rowlock/rowlock/memory"
)

// TestStartAfterTheLoss: a command whose lease is lost before it starts, or while it does, is not run, and the exit
// code is that of a lost lease.
func TestStartAfterTheLoss(t *testing.T) {
	store := memory.New()
	locks, err := rowlock.New(store, rowlock.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = locks.Close(t.Context()) })
	lease, err := locks.Acquire(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	begin := func() *running {
		return &running{run: &run{app: &app{stderr: io.Discard}, key: "k", command: []string{"true"}, path: "/bin/true", store: &opened{Store: store}, lease: &hold{lease, []*rowlock.Lease{lease}}, keys: []string{"k"}}}
	}
	late := guard.Event{Kind: guard.Failed, Why: guard.Late}
	if got := ExitCode(begin().event(late)); got != exitLost {
		t.Errorf("the guard found no time: exit code %d, want %d", got, exitLost)
	}
	failed := guard.Event{Kind: guard.Failed, Errno: int(syscall.EIO), Text: "the guard ended"}
	if got := ExitCode(begin().event(failed)); got != exitNotRunnable {
		t.Errorf("with the lease: exit code %d, want %d", got, exitNotRunnable)
	}
	if err := lease.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := ExitCode(begin().event(failed)); got != exitLost {
		t.Errorf("while it starts: exit code %d, want %d", got, exitLost)
	}
	if got := ExitCode(begin().execute()); got != exitLost {
		t.Errorf("before it starts: exit code %d, want %d", got, exitLost)
	}
}
