package mysqllock

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/testserver"
	"github.com/rowlock/rowlock/mysql/internal/conn"
	"github.com/rowlock/rowlock/mysql/internal/session"
)

// impatient calls f again and again with little time each, as the attempts of a short TTL do, until done.
func impatient(t *testing.T, what string, each time.Duration, f func(context.Context) error, done func(error) bool) {
	t.Helper()
	start := time.Now()
	var last error
	calls := 0
	for bound := testserver.Patience(t); time.Since(start) < bound; {
		ctx, cancel := context.WithTimeout(t.Context(), each)
		last = f(ctx)
		calls++
		cancel()
		if done(last) {
			t.Logf("%s: after %v, %d calls", what, time.Since(start), calls)
			return
		}
	}
	t.Fatalf("%s: not after %v, %d calls: %v", what, time.Since(start), calls, last)
}

// The first check of a Store takes longer than any of its callers has, because the server is slow: it is one for all of them and
// goes on when they leave, so that a later one finds it done.
func TestP26_FirstCheckSlowerThanItsCallers(t *testing.T) {
	testserver.Long(t)
	t.Parallel()
	everywhere(t, func(t *testing.T, l *lab) {
		s, d := l.distant(0)
		warm(t, s)
		d.oneWay.Store(int64(600 * time.Millisecond)) // the check is two or three round trips
		impatient(t, "P26: the first check, whose callers have less time than it takes", 100*time.Millisecond,
			func(ctx context.Context) error {
				_, err := s.Inspect(ctx, []string{"k"})
				return err
			},
			func(error) bool { return s.checked.Load() })
	})
}

// TestP8_FirstCheckThatBeganBefore: who joins the first check of another caller hears nothing that was read before its own call: here
// that the tables are missing, which were made meanwhile.
func TestP8_FirstCheckThatBeganBefore(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, l *lab) {
		s := l.bare()
		control, err := s.db.Control.Get(patient(t)) // the other half of the check waits for it
		must(t, err)
		acquire := func(key string) <-chan error {
			done := make(chan error, 1)
			go func() {
				results, err := s.Acquire(patient(t), []driver.Request{request(key, time.Minute)})
				if err == nil {
					err = results[0].Err
				}
				done <- err
			}()
			return done
		}
		settled := func() bool {
			before := s.Statements()
			time.Sleep(200 * time.Millisecond)
			return before == s.Statements() && len(s.db.Acquires.Idle()) > 0
		}
		first := acquire("first")
		eventually(t, "the tables were looked for", settled)
		_ = l.store()
		second := acquire("second")
		eventually(t, "the second caller has joined", settled)
		control.Put()
		must(t, <-second)
		if err := <-first; err != nil && !errors.Is(err, driver.ErrSchema) {
			t.Errorf("the first caller: %v", err)
		}
	})
}

// So is a connection that will hold a lock or a transaction.
func TestP26_SessionOpenedSlowerThanItsCallers(t *testing.T) {
	testserver.Long(t)
	t.Parallel()
	everywhere(t, func(t *testing.T, l *lab) {
		s, _ := l.distant(250 * time.Millisecond)
		pools := map[string]*conn.Pool{"a transaction": s.guarded.Connections}
		if f, ok := s.strategy.(*session.ForUpdate); ok {
			pools["a session"] = f.Sessions
		}
		for what, pool := range pools {
			impatient(t, "P26: the connection of "+what+", whose callers have less time than it takes to open", 400*time.Millisecond,
				func(ctx context.Context) error {
					c, err := pool.GetFor(ctx, 20*time.Second)
					if err == nil {
						c.Put()
					}
					return err
				},
				func(err error) bool { return err == nil })
		}
	})
}

// A session that was opened for a caller who left, and that nobody else takes, is closed after its idle time, although
// none is ever put back.
func TestSessionNobodyTakesIsClosed(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, l *lab) {
		s, _ := l.distant(100 * time.Millisecond)
		pool := s.guarded.Connections
		if f, ok := s.strategy.(*session.ForUpdate); ok {
			pool = f.Sessions
		}
		var opened atomic.Int32
		prepare := pool.Prepare
		pool.IdleFor, pool.Prepare = 200*time.Millisecond, func(ctx context.Context, c *conn.Conn, silence time.Duration) (err error) {
			if prepare != nil {
				err = prepare(ctx, c, silence)
			}
			if err == nil {
				opened.Add(1)
			}
			return err
		}
		ctx, cancel := context.WithTimeout(t.Context(), 150*time.Millisecond)
		defer cancel()
		if c, err := pool.GetFor(ctx, 20*time.Second); err == nil {
			c.Put()
			t.Fatal("the session was there before its caller left")
		}
		eventually(t, "it is opened all the same", func() bool { return opened.Load() == 1 })
		eventually(t, "it is closed", func() bool { return pool.Open() == 0 })
	})
}
