package cronlock_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/rowlock/rowlock"
	cronlock "github.com/rowlock/rowlock/adapters/cron"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/locktest"
	"github.com/rowlock/rowlock/memory"
)

// refused is what a database says that refuses its user.
func refused(context.Context, *locktest.Call, locktest.Send) ([]driver.Result, error) {
	return nil, &driver.Error{Lasting: true, NotApplied: true, Err: errors.New("the server refused the user or password")}
}

// TestJobAfterARefusal: a run that the database refuses is an error for the logger, and the next one is made.
func TestJobAfterARefusal(t *testing.T) {
	t.Parallel()
	store := locktest.NewFault(memory.New())
	var log logger
	ran := 0
	job := cronlock.Job(&log, client(t, store), "job", func(context.Context, *rowlock.Lease) error { ran++; return nil })
	store.On(locktest.OpAcquire, refused)
	job.Run()
	if text := log.take(); ran != 0 || !strings.HasPrefix(text, "error nobody may have run this job") || !strings.Contains(text, "refused the user") {
		t.Errorf("%d runs, logged %q", ran, text)
	}
	store.Clear()
	job.Run()
	if text := log.take(); ran != 1 || text != "" {
		t.Errorf("%d runs, logged %q", ran, text)
	}
}
