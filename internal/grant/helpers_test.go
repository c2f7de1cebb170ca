package grant

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/call"
	"github.com/rowlock/rowlock/internal/logs"
	"github.com/rowlock/rowlock/internal/undo"
)

const (
	ttl    = 30 * time.Second
	margin = 3 * time.Second
	trust  = ttl - margin
)

// fixture is a Renewer over a store that answers what the test says. Its clock is 0 at the
// beginning.
type fixture struct {
	driver.Store
	*Renewer
	t       *testing.T
	renew   func(h driver.Hold) (driver.Result, error)
	release func(h driver.Hold) (driver.Result, error)
	renewed atomic.Int32 // statements
	hang    bool         // the next release gets no answer before its deadline

	mu       sync.Mutex
	outcomes []Outcome
}

func newFixture(t *testing.T) *fixture {
	f := &fixture{t: t}
	f.renew = func(driver.Hold) (driver.Result, error) { return driver.Result{Status: driver.Alive}, nil }
	f.release = func(driver.Hold) (driver.Result, error) {
		return driver.Result{Status: driver.Released, Final: true}, nil
	}
	start := time.Now()
	limits := driver.Limits{Batch: 100, Renewals: 100, InFlight: 1}
	store := call.New(f, limits, func() time.Duration { return time.Since(start) })
	log, steps := logs.New(nil)
	report := new(logs.Report)
	report.Init(log, store.Now)
	open, closes := context.WithCancel(context.Background())
	unresolved := undo.New(store, report, log)
	f.Renewer = NewRenewer(Config{
		Store: store, Unresolved: unresolved, Report: report, Steps: steps, Open: open,
		Lost: func(key string, token int64, reason Reason, cause error) error {
			return fmt.Errorf("%s %d lost: %d: %w", key, token, reason, cause)
		},
		Releasing: func(*Grant) (bool, *driver.Request) { return true, nil },
		Ended: func(_ *Grant, o Outcome) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.outcomes = append(f.outcomes, o)
		},
	})
	t.Cleanup(func() {
		closes()
		<-store.Work.Close()
		_, _ = unresolved.Wait(context.Background())
		store.End()
	})
	return f
}

func (f *fixture) Acquire(context.Context, []driver.Request) ([]driver.Result, error) {
	return nil, errors.New("not expected")
}

func (f *fixture) Renew(_ context.Context, holds []driver.Hold) (results []driver.Result, err error) {
	f.renewed.Add(1)
	for _, h := range holds {
		r, err := f.renew(h)
		if err != nil {
			return nil, err
		}
		results = append(results, r)
	}
	return results, nil
}

func (f *fixture) Release(ctx context.Context, holds []driver.Hold) (results []driver.Result, err error) {
	if f.hang {
		f.hang = false
		<-ctx.Done()
		return nil, ctx.Err()
	}
	for _, h := range holds {
		r, err := f.release(h)
		if err != nil {
			return nil, err
		}
		results = append(results, r)
	}
	return results, nil
}

// add begins a grant that was asked for now, with its first user.
func (f *fixture) add(terms ...func(*Terms)) (*Grant, *lease) {
	t := Terms{TTL: ttl, Margin: margin}
	for _, set := range terms {
		set(&t)
	}
	g := New("k", driver.HoldID{1}, t, f.store.Now(), driver.Result{Status: driver.Granted, Token: 1000, Stored: 1000})
	l := &lease{}
	f.Add(&g, l)
	return &g, l
}

// wait lets d pass, and what is due by then happen.
func wait(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func noRenew(t *Terms) { t.NoRenew = true }

// ended are the outcomes so far.
func (f *fixture) ended() []Outcome {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.outcomes)
}

// lease is a user that notes what it is told.
type lease struct {
	token  int64
	renews atomic.Int32

	mu    sync.Mutex
	ended []Reason
	cause error
}

func (l *lease) Ended(r Reason, cause error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended, l.cause = append(l.ended, r), cause
}

func (l *lease) Renewed(time.Duration) { l.renews.Add(1) }

// told is why the grant ended for this user.
func (l *lease) told() []Reason {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.ended)
}

func (l *lease) why() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cause
}
