package memory

import (
	"context"
	"errors"
	"fmt"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/guards"
)

// Guarded transactions, for tests of programs that use them on a database. There is
// nothing to write to here: what a test's fake repository does belongs to the
// transaction if it does it by OnCommit.

// maxRun is the longest run ID, in bytes, as in the databases.
const maxRun = 255

// tx is one transaction.
type tx struct {
	holds   []driver.Hold
	effects []func()
}

type txKey struct{}

// InTx runs fn as a guarded transaction, for tests of code that uses InTx of
// mysqllock or mongolock: the lease must be held when it begins and when it would
// commit. Otherwise the error matches rowlock.ErrLost or rowlock.ErrReleased, and
// nothing of what fn gave to [OnCommit] is done. While fn runs nobody is granted the
// key, also where the hold has expired: the key is pinned, as in a database. Only
// [Store.Expire] ends that too. Under a lease of rowlock.Shared no exclusive hold is
// granted meanwhile, under one of rowlock.Slots nor one of the same slot.
//
// fn's context ends with ctx and with the lease. fn is called once. Its error is
// returned as it is, joined with the *rowlock.LostError if the lease was lost
// meanwhile; an error, a panic and runtime.Goexit commit nothing, nor does a ctx that
// has ended. Other errors: rowlock.ErrInvalid, a nil lease or fn, or another Store's
// lease; rowlock.ErrClosed. There is neither ErrConflict nor ErrUnknownOutcome here.
// Calls may be concurrent, with one lease too.
//
// With more leases, for example those of a rowlock.Group, what is said of the lease holds for
// each. The lease needs no rowlock.Guarded() here; on MongoDB it does.
func (s *Store) InTx(ctx context.Context, lease *rowlock.Lease, fn func(ctx context.Context) error, more ...*rowlock.Lease) error {
	return s.inTx(ctx, guards.LeasesOf(lease, more), "", fn)
}

// Once is InTx for a run that takes effect once: with its commit the run of the key has
// its mark, for as long as the Store lives. If it has one already, or got one while fn
// ran, the error matches rowlock.ErrAlreadyRan, and nothing is committed. run has 1 to
// 255 bytes. With more leases all are guarded; the run is one of the first lease's key.
func (s *Store) Once(ctx context.Context, lease *rowlock.Lease, run string, fn func(ctx context.Context) error, more ...*rowlock.Lease) error {
	if len(run) < 1 || len(run) > maxRun {
		return fmt.Errorf("memory: %w: a run ID of %d bytes: use 1 to %d", driver.ErrInvalid, len(run), maxRun)
	}
	return s.inTx(ctx, guards.LeasesOf(lease, more), run, fn)
}

// OnCommit has f called when the transaction that ctx comes from commits: in the order
// of the calls, before InTx or Once returns, and before anybody else is granted the
// key. If it does not commit f is never called. Where ctx comes from no transaction f
// is called at once. It is for the fake repository of a test, and not for concurrent use
// with one ctx; f must not use the Store.
func OnCommit(ctx context.Context, f func()) {
	t, ok := ctx.Value(txKey{}).(*tx)
	if !ok {
		f()
		return
	}
	t.effects = append(t.effects, f)
}

func (s *Store) inTx(ctx context.Context, leases guards.Leases, run string, fn func(context.Context) error) error {
	switch {
	case fn == nil:
		return fmt.Errorf("memory: transaction: %w: the function is nil", driver.ErrInvalid)
	case ctx == nil:
		return fmt.Errorf("memory: transaction: %w: the context is nil", driver.ErrInvalid)
	}
	hs, err := leases.Begin(s)
	if err != nil {
		return fmt.Errorf("memory: transaction: %w", err)
	}
	t := &tx{holds: hs.All}
	defer s.unpin(t)
	if err := s.guard(ctx, hs, run, func() { s.pin(t) }); err != nil {
		return err
	}
	inner, cancel := context.WithCancel(ctx) // so that the leases forget their contexts
	defer cancel()
	if err := fn(context.WithValue(leases.Context(inner), txKey{}, t)); err != nil {
		if lost := leases.Err(); errors.Is(lost, rowlock.ErrLost) && !errors.Is(err, lost) {
			err = errors.Join(err, lost)
		}
		return err
	}
	if err := leases.Err(); err != nil { // looks at the clock
		return fmt.Errorf("memory: transaction under %q: %w", hs.First.Key, err)
	}
	if err := s.guard(ctx, hs, run, func() { s.mark(hs.First.Key, run) }); err != nil {
		return err
	}
	for _, f := range t.effects { // the key is pinned
		f()
	}
	return nil
}

// guard calls then if no newer hold was granted that excludes one of these, and the run has
// no mark, before anything else can happen.
func (s *Store) guard(ctx context.Context, hs guards.Holds, run string, then func()) error {
	key := hs.First.Key
	_, err := s.begin(ctx)
	if err != nil {
		return fmt.Errorf("memory: transaction under %q: %w", key, err)
	}
	defer s.mu.Unlock()
	for _, h := range hs.All {
		if r := s.rows[h.Key]; !r.newest(h) {
			why := gone(r, h.ID)
			if h.Mode != driver.Exclusive {
				why = goneShare(r, h)
			}
			return fmt.Errorf("memory: transaction under %q: %w", key, guards.Lost(h, why))
		}
	}
	if s.runs[runID{key, run}] {
		return fmt.Errorf("memory: run %q of %q: %w", run, key, driver.ErrAlreadyRan)
	}
	then()
	return nil
}

// runID names a run.
type runID struct{ key, run string }

// mark notes that the run has had its effects; without a run there is none. Called
// under s.mu, as pin is.
func (s *Store) mark(key, run string) {
	if run != "" {
		s.runs[runID{key, run}] = true
	}
}

// pin notes an open transaction: until it ends no hold is granted that one of its own excludes.
func (s *Store) pin(t *tx) {
	for _, h := range t.holds {
		if s.open[h.Key] == nil {
			s.open[h.Key] = make(map[*tx]bool)
		}
		s.open[h.Key][t] = true
	}
}

func (s *Store) unpin(t *tx) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range t.holds {
		delete(s.open[h.Key], t)
		if len(s.open[h.Key]) == 0 {
			delete(s.open, h.Key)
		}
	}
}
