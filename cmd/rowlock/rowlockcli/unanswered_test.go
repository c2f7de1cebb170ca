package rowlockcli

import (
	"errors"
	"testing"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/locktest"
	"github.com/rowlock/rowlock/memory"
)

// TestHeldWithoutAnAnswer: a caller that has waited, and was told last that another has the key, asks once more. Where the database
// does not answer then its end is not that another has the key, which -x would take for success.
func TestHeldWithoutAnAnswer(t *testing.T) {
	for _, c := range []struct {
		name   string
		noWait bool
		hook   locktest.Hook
		code   int
	}{
		{"no answer", false, locktest.Fail, exitUnavailable},
		{"an answer", false, nil, 0},
		{"it has just been heard", true, locktest.Fail, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			store := locktest.NewFault(memory.New())
			store.On(locktest.OpInspect, c.hook)
			r := &run{
				app: &app{flags: flags{timeout: duration(time.Minute)}}, f: runFlags{noWait: c.noWait, skip: true},
				key: "k", keys: []string{"k"}, store: &opened{Store: store},
			}
			err := r.notAcquired(&rowlock.HeldError{Key: "k"})
			if got := ExitCode(err); got != c.code {
				t.Errorf("exit code %d, want %d: %v", got, c.code, err)
			}
			if errors.Is(err, rowlock.ErrHeld) == (c.code != 0) {
				t.Errorf("%v", err)
			}
		})
	}
}
