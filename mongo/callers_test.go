package mongolock

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/internal/testserver"
	"github.com/rowlock/rowlock/mongo/internal/command"
)

// In the caller's session nothing is sent but by Guard, MarkRun and LockTx, and
// these send one statement each (MarkRun two), whatever else the library does with
// a context that carries the session.
func TestP14_CallersTransaction(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	sent := make(map[string][]string) // by session
	monitor := &event.CommandMonitor{Started: func(_ context.Context, e *event.CommandStartedEvent) {
		_, id, _ := e.Command.Lookup("lsid", "id").BinaryOK()
		first, _ := e.Command.IndexErr(0)
		mu.Lock()
		defer mu.Unlock()
		sent[string(id)] = append(sent[string(id)], strings.ReplaceAll(first.String(), " ", ""))
	}}
	s := open(t, database(t, testserver.DSN(t, testserver.Mongo), options.Client().SetMonitor(monitor)), Options{})
	c := locker(t, s, rowlock.Options{})
	lease, other := guarded(t, c, "k"), guarded(t, c, "other")
	sess, ctx := begin(t, s)
	mu.Lock()
	clear(sent) // the session comes from the driver's pool
	mu.Unlock()
	must(t, s.Guard(ctx, lease))

	third, err := c.Acquire(ctx, "third", rowlock.Guarded())
	must(t, err)
	must(t, third.Renew(ctx))
	_, err = c.Inspect(ctx, "third")
	must(t, err)
	must(t, third.Release(ctx))
	must(t, s.InTx(ctx, other, func(ctx context.Context) error { return add(ctx, s, "other") }))
	must(t, s.Once(ctx, other, "r", func(ctx context.Context) error { return add(ctx, s, "other") }))
	must(t, s.WaitTx(ctx, "k"))
	_, err = s.ReapRuns(ctx, time.Hour)
	must(t, err)
	_, err = s.Reap(ctx, time.Hour)
	must(t, err)
	_, err = s.List(ctx, "", "", 10)
	must(t, err)
	_, err = s.ForceRelease(ctx, "nobody's")
	must(t, err)
	must(t, s.Check(ctx))
	must(t, s.Migrate(ctx))

	must(t, s.MarkRun(ctx, lease, "r"))
	must(t, s.LockTx(ctx, "a", "b"))
	must(t, sess.AbortTransaction(ctx))
	_, id := sess.ID().Lookup("id").Binary()
	mu.Lock()
	names := sent[string(id)]
	mu.Unlock()
	want := []string{`{"update":"locks_fence"}`, `{"update":"locks_fence"}`, `{"update":"locks_runs"}`, `{"update":"locks_tx"}`}
	if n := len(names); n != 5 || !slices.Equal(names[:4], want) || !strings.Contains(names[4], `"abortTransaction"`) {
		t.Errorf("P14: sent in the caller's session: %q", names)
	}
	if number(t, s, "other") != 2 {
		t.Errorf("P14: transactions of the library were aborted with the caller's")
	}
}

// A session of another client of the same cluster may be guarded: in such a one
// users of two clients work.
func TestGuardInASessionOfAnotherClient(t *testing.T) {
	t.Parallel()
	s := shared(t)
	other := beside(t, s, testserver.DSN(t, testserver.Mongo))
	lease := guarded(t, locker(t, s, rowlock.Options{}), "k")
	sess, ctx := begin(t, other)
	must(t, s.MarkRun(ctx, lease, "r"))
	must(t, s.LockTx(ctx, "k"))
	must(t, add(ctx, other, "k"))
	must(t, sess.CommitTransaction(ctx))
	if number(t, s, "k") != 1 {
		t.Error("not committed")
	}
}

// What ends with the caller's context, in the middle of a command, is this command and the
// connection that it alone has: no pool is cleared, no call of anybody else fails. What
// the context carries reaches no connection that others will use.
func TestCallersContext(t *testing.T) {
	t.Parallel()
	type secret struct{}
	var cut atomic.Pointer[func()]
	var sent, closed, cleared atomic.Int64
	monitor := &event.CommandMonitor{Started: func(ctx context.Context, _ *event.CommandStartedEvent) {
		if ctx.Value(secret{}) != nil {
			sent.Add(1)
			(*cut.Load())()
		}
	}}
	pool := &event.PoolMonitor{Event: func(e *event.PoolEvent) {
		switch e.Type {
		case event.ConnectionClosed:
			closed.Add(1)
		case event.ConnectionPoolCleared:
			cleared.Add(1)
		}
	}}
	s := open(t, database(t, testserver.DSN(t, testserver.Mongo),
		options.Client().SetMonitor(monitor).SetPoolMonitor(pool).SetDialer(dialer(func(ctx context.Context) {
			if ctx.Value(secret{}) != nil {
				t.Error("a connection is made with the values of a caller's context")
			}
		}))), Options{})
	lease := guarded(t, locker(t, s, rowlock.Options{}), "k")
	writeDead(t, s, "dead", 10)

	over := make(chan struct{})
	var others sync.WaitGroup
	for range 4 {
		others.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
				}
				_, inspected := s.Inspect(t.Context(), []string{"k"})
				for what, err := range map[string]error{"renewal": lease.Renew(t.Context()), "Inspect": inspected} {
					if err != nil && command.Code(err) != command.CodeMaxTimeMSExpired { // that is a busy server
						t.Errorf("%s beside calls that are given up: %v", what, err)
						return
					}
				}
			}
		})
	}
	for what, call := range map[string]func(context.Context) error{
		"Check":        s.Check,
		"Migrate":      s.Migrate,
		"List":         func(ctx context.Context) error { _, err := s.List(ctx, "", "", 10); return err },
		"ForceRelease": func(ctx context.Context) error { _, err := s.ForceRelease(ctx, "nobody's"); return err },
		"Reap":         func(ctx context.Context) error { _, err := s.Reap(ctx, time.Hour); return err },
		"ReapRuns":     func(ctx context.Context) error { _, err := s.ReapRuns(ctx, time.Hour); return err },
	} {
		for _, later := range []bool{false, true} { // before it is sent, and about when it is answered
			ctx, cancel := context.WithCancel(context.WithValue(t.Context(), secret{}, "the caller's"))
			end := func() { cancel() }
			if later {
				end = func() { time.AfterFunc(time.Millisecond, cancel) }
			}
			cut.Store(&end)
			if err := call(ctx); err != nil && !errors.Is(err, context.Canceled) {
				t.Errorf("%s: %v: does not match the context's error", what, err)
			}
			cancel()
		}
	}
	close(over)
	others.Wait()
	if cleared.Load() > 0 {
		t.Errorf("the pool was cleared %d times", cleared.Load())
	}
	if closed.Load() > sent.Load() {
		t.Errorf("%d connections were closed for %d commands that were given up", closed.Load(), sent.Load())
	}
	t.Logf("%d commands, %d connections closed", sent.Load(), closed.Load())
}

// dialer is told of every connection that is made.
type dialer func(context.Context)

func (f dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	f(ctx)
	return new(net.Dialer).DialContext(ctx, network, address)
}

// fn uses a collection of another client, which the driver refuses: it is told what to
// use instead, once, and the lease goes on.
func TestInTxWithCollectionsOfAnotherClient(t *testing.T) {
	t.Parallel()
	s := shared(t)
	other := beside(t, s, testserver.DSN(t, testserver.Mongo))
	lease := guarded(t, locker(t, s, rowlock.Options{}), "k")
	calls := 0
	fn := func(ctx context.Context) error { calls++; return add(ctx, other, "k") }
	for what, err := range map[string]error{
		"InTx": s.InTx(t.Context(), lease, fn),
		"Once": s.Once(t.Context(), lease, "r", fn),
	} {
		wants(t, what, err, rowlock.ErrInvalid)
		wants(t, what, err, mongo.ErrWrongClient)
		if err != nil && !strings.Contains(err.Error(), "use collections of the client that the Store was made with") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if calls != 2 {
		t.Errorf("fn was called %d times for two transactions", calls)
	}
	must(t, s.Once(t.Context(), lease, "r", func(ctx context.Context) error { return add(ctx, s, "k") }))
	if n := number(t, s, "k"); n != 1 {
		t.Errorf("%d effects", n)
	}
}

// Heartbeats and other clients' acquires end while a guarded transaction is open: the delay is logged.
func TestP15_HeartbeatsBesideAnOpenGuard(t *testing.T) {
	t.Parallel()
	s := shared(t)
	c := locker(t, s, rowlock.Options{})
	lease := guarded(t, c, "k")
	beats := func(d time.Duration) (usual, longest time.Duration) {
		var took []time.Duration
		for end := time.Now().Add(d); len(took) < 5 || time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
			start := time.Now()
			must(t, lease.Renew(t.Context()))
			took = append(took, time.Since(start))
			if _, err := c.TryAcquire(t.Context(), "k"); !errors.Is(err, rowlock.ErrHeld) {
				t.Errorf("acquire of a key that is held and guarded: %v", err)
			}
		}
		slices.Sort(took)
		return took[len(took)/2], took[len(took)-1]
	}
	usual, longest := beats(500 * time.Millisecond)
	t.Logf("a heartbeat takes %v, the longest %v", usual, longest)
	sess, ctx := begin(t, s)
	must(t, s.Guard(ctx, lease))
	usual, longest = beats(time.Second)
	must(t, sess.CommitTransaction(ctx))
	t.Logf("beside an open guarded transaction %v, the longest %v", usual, longest)
}
