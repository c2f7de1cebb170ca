package mongolock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/testserver"
	"github.com/rowlock/rowlock/mongo/internal/command"
	"github.com/rowlock/rowlock/mongo/internal/document"
)

// The guard comes first or last in the transaction, before or after the takeover,
// in a snapshot older than the takeover or not: what was written under an older
// token is not committed behind a newer grant.
func TestP4_GuardedCommitAfterATakeover(t *testing.T) {
	t.Parallel()
	s := shared(t)
	a, b := locker(t, s, rowlock.Options{}), locker(t, s, rowlock.Options{})

	t.Run("guard behind it", func(t *testing.T) {
		old := guarded(t, a, "behind")
		expire(t, s, "behind")
		guarded(t, b, "behind")
		_, ctx := begin(t, s)
		must(t, add(ctx, s, "behind"))
		var lost *rowlock.LostError
		if err := s.Guard(ctx, old); !errors.As(err, &lost) || lost.Reason != rowlock.ReasonTaken || lost.Key != "behind" || lost.Token != old.Token() {
			t.Errorf("P4: guard after a takeover: %v, want it lost, taken", err)
		}
	})
	t.Run("guard in an older snapshot", func(t *testing.T) {
		old := guarded(t, a, "older")
		_, ctx := begin(t, s)
		must(t, add(ctx, s, "older"))
		expire(t, s, "older")
		guarded(t, b, "older")
		err := s.Guard(ctx, old)
		wants(t, "P4: guard in an older snapshot", err, rowlock.ErrConflict)
		var l mongo.ServerError
		if !errors.As(err, &l) || !l.HasErrorLabel("TransientTransactionError") || !l.HasErrorCode(command.CodeWriteConflict) {
			t.Errorf("P8: %v does not show the driver's error", err)
		}
	})
	t.Run("by WithTransaction", func(t *testing.T) {
		old := guarded(t, a, "with")
		sess, err := s.db.Client().StartSession()
		must(t, err)
		defer sess.EndSession(context.Background())
		calls := 0
		_, err = sess.WithTransaction(t.Context(), func(ctx context.Context) (any, error) {
			if calls++; calls == 1 {
				must(t, add(ctx, s, "with"))
				expire(t, s, "with")
				guarded(t, b, "with")
			}
			return nil, s.Guard(ctx, old)
		}, ownTransactions)
		wants(t, "P4: WithTransaction", err, rowlock.ErrLost)
		if calls != 2 {
			t.Errorf("P8: called %d times, want one more after the conflict", calls)
		}
	})
	t.Run("after force", func(t *testing.T) {
		old := guarded(t, a, "force")
		if _, err := s.ForceRelease(patient(t), "force"); err != nil {
			t.Fatal(err)
		}
		_, ctx := begin(t, s)
		var lost *rowlock.LostError
		if err := s.Guard(ctx, old); !errors.As(err, &lost) || lost.Reason != rowlock.ReasonForced {
			t.Errorf("P4: guard after force: %v, want it lost, forced", err)
		}
	})
	for _, id := range []string{"behind", "older", "with"} {
		if n := number(t, s, id); n != 0 {
			t.Errorf("P4: stale commit: %q is %d", id, n)
		}
	}
}

// While a guarded transaction is open the holder renews as ever, and who takes the
// expired lease over waits for its end.
func TestP4_OpenGuardPinsTheKey(t *testing.T) {
	t.Parallel()
	s := shared(t)
	a, b := locker(t, s, rowlock.Options{}), locker(t, s, rowlock.Options{})
	old := guarded(t, a, "k")
	sess, ctx := begin(t, s)
	must(t, s.Guard(ctx, old))
	must(t, add(ctx, s, "k"))
	must(t, old.Renew(t.Context()))

	expire(t, s, "k")
	var held *rowlock.HeldError
	if _, err := b.TryAcquire(patient(t), "k"); !errors.As(err, &held) || !held.Pinned { // not guarded itself
		t.Errorf("P4: takeover while the transaction is open: %v, want it pinned", err)
	}
	if _, err := b.TryAcquire(patient(t), "k", rowlock.Guarded()); !errors.As(err, &held) || !held.Pinned {
		t.Errorf("P4: takeover while the transaction is open: %v, want it pinned", err)
	}
	must(t, sess.CommitTransaction(ctx)) // the session of a plain guard is not ended
	next := guarded(t, b, "k")
	if n := number(t, s, "k"); n != 1 {
		t.Errorf("the transaction before the takeover is lost: %d", n)
	}
	_, ctx = begin(t, s)
	wants(t, "P4: guard after the takeover", s.Guard(ctx, old), rowlock.ErrLost)
	_, ctx = begin(t, s)
	must(t, s.Guard(ctx, next))
}

// A waiter is granted the key when the transaction has ended, and not before.
func TestP4_WaiterComesAfterTheCommit(t *testing.T) {
	t.Parallel()
	s := shared(t)
	a, b := locker(t, s, rowlock.Options{}), locker(t, s, rowlock.Options{TTL: 2 * time.Second})
	old := guarded(t, a, "k")
	sess, ctx := begin(t, s)
	must(t, s.Guard(ctx, old))
	must(t, add(ctx, s, "k"))
	must(t, old.Release(patient(t))) // does not wait for the own transaction
	seen := make(chan int64, 1)
	go func() {
		lease, err := b.Acquire(context.Background(), "k", rowlock.Guarded())
		if err != nil {
			t.Errorf("acquire: %v", err)
			close(seen)
			return
		}
		defer lease.Release(context.Background())
		seen <- number(t, s, "k")
	}()
	select {
	case <-seen:
		t.Error("P4: granted while a guarded transaction was open")
	case <-time.After(300 * time.Millisecond):
	}
	must(t, sess.CommitTransaction(ctx))
	if n := <-seen; n != 1 {
		t.Errorf("P4: the next holder does not see the commit before it: %d", n)
	}
}

// A lease that came by handing off is guarded by its new holder, under the token of
// the grant; and is then not handed off again: two local holders in a row, each with
// a transaction, do not overlap.
func TestP4_GuardAfterHandingOff(t *testing.T) {
	t.Parallel()
	s := shared(t)
	c := locker(t, s, rowlock.Options{Handoff: time.Minute})
	first := guarded(t, c, "k")
	second := behind(t, c, first)
	if second.Token() != first.Token()+1 {
		t.Fatalf("token %d after %d: not handed off", second.Token(), first.Token())
	}
	_, ctx := begin(t, s)
	wants(t, "P4: guard by the one who handed off", s.Guard(ctx, first), rowlock.ErrReleased)
	sess, ctx := begin(t, s)
	must(t, s.Guard(ctx, second))
	must(t, add(ctx, s, "k"))

	got := make(chan *rowlock.Lease, 1)
	go func() {
		lease, err := c.Acquire(context.Background(), "k", rowlock.Guarded())
		if err != nil {
			t.Error(err)
		}
		got <- lease
	}()
	waiting(t, c, 1)
	must(t, second.Release(patient(t)))
	select {
	case third := <-got:
		t.Fatalf("P4: granted (token %d after %d) while the transaction of the holder before is open", third.Token(), second.Token())
	case <-time.After(300 * time.Millisecond):
	}
	must(t, sess.CommitTransaction(ctx))
	third := <-got
	if third.Token() < first.Token()+driver.TokenRange {
		t.Errorf("P4: token %d after %d: handed off after a guard", third.Token(), second.Token())
	}
	must(t, s.InTx(patient(t), third, func(ctx context.Context) error { return add(ctx, s, "k") }))
	if n := number(t, s, "k"); n != 2 {
		t.Errorf("%d of 2 commits", n)
	}
}

// behind waits for a key that lease has, and gets it when lease is released.
func behind(t testing.TB, c *rowlock.Client, lease *rowlock.Lease) *rowlock.Lease {
	t.Helper()
	got := make(chan *rowlock.Lease, 1)
	go func() {
		next, err := c.Acquire(context.Background(), lease.Key(), rowlock.Guarded())
		if err != nil {
			t.Error(err)
		}
		got <- next
	}()
	waiting(t, c, 1)
	must(t, lease.Release(patient(t)))
	return <-got
}

// waiting returns when n callers wait.
func waiting(t testing.TB, c *rowlock.Client, n int) {
	t.Helper()
	for range 5000 {
		if c.Stats().Waiting == n {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatalf("%d wait, want %d", c.Stats().Waiting, n)
}

// Two transactions of one lease at once: the second is undone and says so in a way
// that the driver's own loop understands.
func TestP8_OverlappingGuards(t *testing.T) {
	t.Parallel()
	s := shared(t)
	lease := guarded(t, locker(t, s, rowlock.Options{}), "k")
	first, ctx := begin(t, s)
	must(t, s.Guard(ctx, lease))
	_, second := begin(t, s)
	err := s.Guard(second, lease)
	wants(t, "P8: second transaction", err, rowlock.ErrConflict)
	if !command.Labelled(err, "TransientTransactionError") {
		t.Errorf("P8: %v has no label", err)
	}
	must(t, first.CommitTransaction(ctx))

	for range 2 { // both by WithTransaction
		t.Run("", func(t *testing.T) {
			t.Parallel()
			sess, err := s.db.Client().StartSession()
			must(t, err)
			defer sess.EndSession(context.Background())
			for range 5 {
				_, err := sess.WithTransaction(t.Context(), func(ctx context.Context) (any, error) {
					if err := s.Guard(ctx, lease); err != nil {
						return nil, err
					}
					return nil, add(ctx, s, "k")
				})
				must(t, err)
			}
		})
	}
}

// A transaction that has read before its lease was acquired cannot see the fence of it.
// That is no loss of the lease, but a conflict, and the next try of WithTransaction
// succeeds; both where the key was guarded before and where it never was.
func TestP8_GuardInATransactionOlderThanItsLease(t *testing.T) {
	t.Parallel()
	s := shared(t)
	c := locker(t, s, rowlock.Options{})
	must(t, guarded(t, c, "again").Release(patient(t)))
	must(t, add(t.Context(), s, "read"))
	for _, key := range []string{"again", "first time"} {
		for verb, guard := range map[string]func(context.Context, *rowlock.Lease) error{
			"Guard":   func(ctx context.Context, lease *rowlock.Lease) error { return s.Guard(ctx, lease) },
			"MarkRun": func(ctx context.Context, lease *rowlock.Lease) error { return s.MarkRun(ctx, lease, "run") },
		} {
			sess, err := s.db.Client().StartSession()
			must(t, err)
			defer sess.EndSession(context.Background())
			var lease *rowlock.Lease
			calls := 0
			_, err = sess.WithTransaction(t.Context(), func(ctx context.Context) (any, error) {
				calls++
				must(t, data(s).FindOne(ctx, document.Op("_id", "read")).Err())
				if lease == nil {
					lease = guarded(t, c, key)
				}
				err := guard(ctx, lease)
				if calls == 1 {
					wants(t, "P8: "+verb+" in a transaction older than its lease", err, rowlock.ErrConflict)
					if !strings.Contains(fmt.Sprint(err), "begin the transaction after the acquire") {
						t.Errorf("%v does not say what to do", err)
					}
				}
				return nil, err
			}, ownTransactions)
			if err != nil || calls != 2 || lease.Err() != nil {
				t.Errorf("P8: %s of %q: %v after %d calls, want success at the second; the lease: %v", verb, key, err, calls, lease.Err())
			}
			must(t, lease.Release(patient(t)))
		}
	}
}

func TestGuardErrors(t *testing.T) {
	t.Parallel()
	s, other := shared(t), shared(t)
	c := locker(t, s, rowlock.Options{})
	lease := guarded(t, c, "k")
	plain, err := c.Acquire(patient(t), "plain")
	must(t, err)
	released := guarded(t, c, "released")
	must(t, released.Release(patient(t)))
	ended, after := begin(t, s)
	must(t, ended.AbortTransaction(after))
	_, inside := begin(t, s)
	cancelled, cancel := context.WithCancel(inside)
	cancel()
	closed := shared(t)
	must(t, closed.Close())
	for _, c := range []struct {
		name  string
		store *Store
		ctx   context.Context
		lease *rowlock.Lease
		want  error
		text  string
	}{
		{"no session", s, t.Context(), lease, rowlock.ErrInvalid, "no session"},
		{"no transaction", s, after, lease, rowlock.ErrInvalid, "no transaction"},
		{"not Guarded", s, inside, plain, rowlock.ErrInvalid, "rowlock.Guarded()"},
		{"nil", s, inside, nil, rowlock.ErrInvalid, "nil"},
		{"another Store", other, inside, lease, rowlock.ErrInvalid, "another Store"},
		{"released", s, inside, released, rowlock.ErrReleased, ""},
		{"ctx", s, cancelled, lease, context.Canceled, ""},
		{"closed", closed, inside, lease, rowlock.ErrClosed, ""},
	} {
		for verb, do := range map[string]func() error{
			"Guard":   func() error { return c.store.Guard(c.ctx, c.lease) },
			"MarkRun": func() error { return c.store.MarkRun(c.ctx, c.lease, "run") },
		} {
			err := do()
			wants(t, verb+", "+c.name, err, c.want)
			if !strings.Contains(fmt.Sprint(err), c.text) {
				t.Errorf("%s, %s: %q does not say %q", verb, c.name, err, c.text)
			}
			if command.Labelled(err, "TransientTransactionError") {
				t.Errorf("%s, %s: %v would be tried again", verb, c.name, err)
			}
		}
	}
	fail := func(context.Context) error { t.Error("fn was called"); return nil }
	wants(t, "InTx, not Guarded", s.InTx(patient(t), plain, fail), rowlock.ErrInvalid)
	wants(t, "InTx, released", s.InTx(patient(t), released, fail), rowlock.ErrReleased)
	wants(t, "InTx, another Store", other.InTx(patient(t), lease, fail), rowlock.ErrInvalid)
	wants(t, "InTx, ctx", s.InTx(cancelled, lease, fail), context.Canceled)
	wants(t, "InTx, closed", closed.InTx(patient(t), lease, fail), rowlock.ErrClosed)
	wants(t, "InTx, nil", s.InTx(patient(t), lease, nil), rowlock.ErrInvalid)
	wants(t, "Once, nil", s.Once(patient(t), lease, "run", nil), rowlock.ErrInvalid)
	for _, run := range []string{"", string(make([]byte, 256))} {
		wants(t, "Once, bad run", s.Once(patient(t), lease, run, fail), rowlock.ErrInvalid)
		wants(t, "MarkRun, bad run", s.MarkRun(inside, lease, run), rowlock.ErrInvalid)
	}
	must(t, s.Guard(inside, lease)) // nothing of all this has disturbed the transaction
}

// The end of ctx ends WithTransaction too, which begins again for two minutes after
// an error that the driver labels.
func TestGuardAtTheEndOfCtx(t *testing.T) {
	t.Parallel()
	p, s, _ := behindProxy(t)
	lease := guarded(t, locker(t, s, rowlock.Options{}), "k")
	sess, err := s.db.Client().StartSession()
	must(t, err)
	defer sess.EndSession(context.Background())
	p.keep("locks_fence")
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	start := time.Now()
	_, err = sess.WithTransaction(ctx, func(ctx context.Context) (any, error) { return nil, s.Guard(ctx, lease) }, ownTransactions)
	wants(t, "WithTransaction", err, context.DeadlineExceeded)
	if took := time.Since(start); took > time.Minute { // half of it
		t.Errorf("WithTransaction went on for %v after the end of ctx", took)
	}
}

func TestTransactionsOnAStandalone(t *testing.T) {
	t.Parallel()
	srv := testserver.Start(t, testserver.MongoStandalone)
	s := open(t, database(t, srv.DSN()), Options{AllowStandalone: true})
	c := locker(t, s, rowlock.Options{})
	lease := guarded(t, c, "k") // works, and cannot be guarded
	_, ctx := begin(t, s)
	fn := func(context.Context) error { return nil }
	for verb, err := range map[string]error{
		"Guard":   s.Guard(ctx, lease),
		"MarkRun": s.MarkRun(ctx, lease, "run"),
		"InTx":    s.InTx(patient(t), lease, fn),
		"Once":    s.Once(patient(t), lease, "run", fn),
		"LockTx":  s.LockTx(ctx, "k"),
		"WaitTx":  s.WaitTx(t.Context(), "k"),
	} {
		wants(t, verb, err, rowlock.ErrNotSupported)
	}
	_, err := s.ReapRuns(t.Context(), time.Hour)
	wants(t, "ReapRuns", err, rowlock.ErrNotSupported)
}
