package guarded

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/guards"
	"github.com/rowlock/rowlock/mysql/internal/conn"
)

// Once is that of mysqllock.
func (g *Transactions) Once(ctx context.Context, leases guards.Leases, run string, fn func(ctx context.Context, tx *sql.Tx) error) error {
	if fn == nil {
		return fmt.Errorf("run %q: %w: the function is nil", run, driver.ErrInvalid)
	}
	if err := guards.CheckRun(run); err != nil {
		return err
	}
	if lease := leases[0]; lease != nil {
		within, free := upTo(ctx, leases)
		end, err := g.onces.begin(within, lease, run)
		free()
		if err != nil {
			return wrapRun(run, lease.Key(), err)
		}
		defer end()
	}
	t, err := g.begin(ctx, leases, run)
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
	ctx, cancel := linger(t.leases.Context(within), CommitGrace, t.c.Silence)
	defer cancel()
	for {
		var token int64
		var server string
		err := t.g.db.Slow(ctx, func(c *conn.Conn) (err error) {
			server = c.Server
			token, err = t.g.Marked(ctx, c, t.holds.First.Key, run)
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

// onces are the calls of Once under way. Two of one run with one lease write the
// same mark, so the second begins when it is known what became of the first: whoever
// asks for its mark after a lost commit does not find the other's.
type onces struct {
	mu    sync.Mutex
	under map[onceKey]chan struct{} // closed at the end
}

type onceKey struct {
	key   string
	token int64
	run   string
}

// begin waits for its turn; the caller calls end.
func (o *onces) begin(ctx context.Context, lease *rowlock.Lease, run string) (end func(), err error) {
	k := onceKey{lease.Key(), lease.Token(), run}
	for {
		o.mu.Lock()
		before, busy := o.under[k]
		if !busy {
			mine := make(chan struct{})
			if o.under == nil {
				o.under = make(map[onceKey]chan struct{})
			}
			o.under[k] = mine
			o.mu.Unlock()
			return func() {
				o.mu.Lock()
				delete(o.under, k)
				o.mu.Unlock()
				close(mine)
			}, nil
		}
		o.mu.Unlock()
		select {
		case <-before:
		case <-ctx.Done():
			return nil, orEnded(guards.Leases{lease}, ctx.Err())
		}
	}
}
