package mysqllock

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/storekit"
	"github.com/rowlock/rowlock/mysql/internal/conn"
)

// Once is InTx for work that must take effect exactly once: in the same transaction
// it marks the run (see MarkRun). If the run has its mark already fn is not called,
// and the error matches rowlock.ErrAlreadyRan: the effects are there. So any
// number of programs may try a run, again and again, until one of these two is the answer.
//
// What InTx says of fn, its context, the connection and errors holds here too.
// A commit whose answer was lost is settled by asking for the mark, in a way that
// waits until the server has decided: if it is there Once returns nil, otherwise
// the error matches rowlock.ErrConflict, and nothing took effect. While ctx and the
// lease last the question is repeated, at most for the lease's TTL or a minute, and
// for two seconds after their end; only then the error matches
// rowlock.ErrUnknownOutcome. Calling Once again answers it.
// rowlock.ErrInvalid names a bad run ID too, rowlock.ErrSchema a missing table.
//
// Two calls for one run with one lease, from two goroutines, run one after the other.
//
// With more leases all are guarded; the run is one of the first lease's key.
//
// Only what fn writes by tx happens exactly once. Statements that commit by
// themselves (DDL) do not belong in fn.
func (s *Store) Once(ctx context.Context, lease *rowlock.Lease, run string, fn func(ctx context.Context, tx *sql.Tx) error, more ...*rowlock.Lease) error {
	if fn == nil {
		return fmt.Errorf("run %q: %w: the function is nil", run, driver.ErrInvalid)
	}
	if err := storekit.CheckRun(run); err != nil {
		return err
	}
	leases := storekit.LeasesOf(lease, more)
	if lease != nil {
		within, free := upTo(ctx, leases)
		end, err := s.onces.begin(within, lease, run)
		free()
		if err != nil {
			return wrapRun(run, lease.Key(), err)
		}
		defer end()
	}
	t, err := s.begin(ctx, leases, run)
	if err != nil {
		return err
	}
	defer t.end()
	if err := t.run(fn); err != nil {
		return err
	}
	err = t.commit()
	if u := (undecided{}); errors.As(err, &u) {
		err = t.settle(ctx, run, u.error)
	}
	return wrapRun(run, t.holds.First.Key, err)
}

// settlePause is how long to wait before the mark is asked for again.
const settlePause = 50 * time.Millisecond

// settle finds out what became of a commit. The session may still be at it, or the
// COMMIT still on its way to the server: until the session has ended the mark is
// locked, so the question waits. end has asked the server to end the session.
func (t *transaction) settle(ctx context.Context, run string, cause error) error {
	t.end()
	within, free := context.WithCancel(ctx)
	defer free()
	ctx, cancel := linger(t.leases.Context(within), commitGrace, t.c.Silence)
	defer cancel()
	for {
		var token int64
		var server string
		err := t.s.db.Slow(ctx, func(c *conn.Conn) (err error) {
			server = c.Server
			token, err = t.s.marked(ctx, c, t.holds.First.Key, run)
			return err
		})
		switch {
		case err == nil && token == 0 && server == t.c.Server:
			return fmt.Errorf("%w: it was rolled back, nothing took effect: %w", driver.ErrConflict, cause)
		case err == nil && token == 0:
			return fmt.Errorf("%w: its mark is not on server %s, to which the connections lead now: %w", driver.ErrUnknownOutcome, server, cause)
		case err == nil && errors.Is(cause, errEndedEarly):
			return fmt.Errorf("it has its mark, and what the function did until then took effect: %w", cause)
		case err == nil && token != t.holds.First.Token:
			return fmt.Errorf("%w by another holder: %w", driver.ErrAlreadyRan, cause)
		case err == nil:
			return nil
		}
		if driver.IsLasting(conn.Classify("ask for a mark", err)) || !conn.Pause(ctx, settlePause) {
			return fmt.Errorf("%w: %w: asking for its mark: %w", driver.ErrUnknownOutcome, cause, err)
		}
	}
}
