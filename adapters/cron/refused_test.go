package cronlock_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rowlock/rowlock"
	cronlock "github.com/rowlock/rowlock/adapters/cron"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/memory"
)

// refusing is a database that refuses its user at times.
type refusing struct {
	*memory.Store
	now atomic.Bool
}

func (s *refusing) Acquire(ctx context.Context, reqs []driver.Request) ([]driver.Result, error) {
	if s.now.Load() {
		return nil, &driver.Error{Lasting: true, NotApplied: true, Err: errors.New("the server refused the user or password")}
	}
	return s.Store.Acquire(ctx, reqs)
}

// TestJobAfterARefusal: a run that the database refuses is an error for the logger, and the next one is made.
func TestJobAfterARefusal(t *testing.T) {
	t.Parallel()
	store := &refusing{Store: memory.New()}
	var log logger
	ran := 0
	job := cronlock.Job(&log, client(t, store), "job", func(context.Context, *rowlock.Lease) error { ran++; return nil })
	store.now.Store(true)
	job.Run()
	if text := log.take(); ran != 0 || !strings.HasPrefix(text, "error nobody may have run this job") || !strings.Contains(text, "refused the user") {
		t.Errorf("%d runs, logged %q", ran, text)
	}
	store.now.Store(false)
	job.Run()
	if text := log.take(); ran != 1 || text != "" {
		t.Errorf("%d runs, logged %q", ran, text)
	}
}
