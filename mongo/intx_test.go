package mongolock

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/internal/testserver"
	"github.com/rowlock/rowlock/locktest"
	"github.com/rowlock/rowlock/mongo/internal/fence"
)

// The holder has lost the key when fn returns, and does not know it: the one who
// took it ended the transaction, so it commits nothing.
func TestP4_InTxAfterATakeover(t *testing.T) {
	t.Parallel()
	s := shared(t)
	a, b := locker(t, s, rowlock.Options{}), locker(t, s, rowlock.Options{})
	old := guarded(t, a, "k")
	calls := 0
	err := s.InTx(patient(t), old, func(ctx context.Context) error {
		if calls++; calls == 1 {
			must(t, add(ctx, s, "k"))
			expire(t, s, "k")
			guarded(t, b, "k")
		}
		return nil
	})
	var lost *rowlock.LostError
	if !errors.As(err, &lost) || lost.Reason != rowlock.ReasonTaken {
		t.Errorf("P4: %v, want it lost, taken", err)
	}
	if calls != 1 {
		t.Errorf("P4: fn was called %d times, the second time after the takeover", calls)
	}
	if n := number(t, s, "k"); n != 0 {
		locktest.Breach(t, "P4", "stale commit")
	}
}

// The lease ends by its own clock while fn works: its context ends, and nothing is
// committed, though nobody has taken the key.
func TestP4_InTxOfALeaseThatEnds(t *testing.T) {
	t.Parallel()
	s := shared(t)
	c := locker(t, s, rowlock.Options{TTL: 2 * time.Second})
	lease, err := c.Acquire(patient(t), "k", rowlock.Guarded(), rowlock.NoRenew())
	must(t, err)
	err = s.InTx(patient(t), lease, func(ctx context.Context) error {
		if err := add(ctx, s, "k"); err != nil && ctx.Err() == nil {
			t.Error(err)
		}
		<-ctx.Done()
		return nil
	})
	wants(t, "P4: InTx", err, rowlock.ErrLost)
	if n := number(t, s, "k"); n != 0 {
		locktest.Breach(t, "P4", "committed after the end of the lease")
	}
}

// The transactions of one lease run one after the other, from however many
// goroutines; none conflicts with another at the fence.
func TestP4_InTxOfOneLeaseAtOnce(t *testing.T) {
	t.Parallel()
	s := shared(t)
	lease := guarded(t, locker(t, s, rowlock.Options{}), "k")
	var wg sync.WaitGroup
	var mu sync.Mutex
	inside, calls := 0, 0
	for range 4 {
		wg.Go(func() {
			for range 5 {
				err := s.InTx(patient(t), lease, func(ctx context.Context) error {
					mu.Lock()
					inside++
					calls++
					if inside > 1 {
						t.Error("two transactions of one lease at once")
					}
					mu.Unlock()
					err := add(ctx, s, "k")
					mu.Lock()
					inside--
					mu.Unlock()
					return err
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if n := number(t, s, "k"); n != 20 {
		t.Errorf("%d of 20 commits", n)
	}
	if calls != 20 {
		t.Errorf("fn was called %d times for 20 transactions without a rival", calls)
	}
}

// However fn ends, but by success, nothing of it stays, and the lease goes on.
func TestInTxAborts(t *testing.T) {
	t.Parallel()
	s := shared(t)
	lease := guarded(t, locker(t, s, rowlock.Options{}), "k")
	mine := errors.New("mine")
	in := func(f func(context.Context) error) error {
		return s.InTx(patient(t), lease, func(ctx context.Context) error {
			if err := add(ctx, s, "k"); err != nil {
				return err
			}
			return f(ctx)
		})
	}
	if err := in(func(context.Context) error { return mine }); err != mine {
		t.Errorf("error of fn: %v, want it as it came", err)
	}
	func() {
		defer func() {
			if p := recover(); p != mine {
				t.Errorf("panic %v, want the own one", p)
			}
		}()
		_ = in(func(context.Context) error { panic(mine) })
	}()
	done, ctx := make(chan struct{}), patient(t)
	go func() {
		defer close(done)
		_ = in(func(context.Context) error { runtime.Goexit(); return nil })
	}()
	select {
	case <-done:
	case <-ctx.Done():
		t.Fatal("InTx does not end where fn ends its goroutine")
	}
	wants(t, "nested", in(func(ctx context.Context) error {
		return s.InTx(ctx, lease, func(context.Context) error { return nil })
	}), rowlock.ErrInvalid)
	wants(t, "fn aborts", in(func(ctx context.Context) error {
		return mongo.SessionFromContext(ctx).AbortTransaction(ctx)
	}), rowlock.ErrInvalid)
	ctx, cancel := context.WithCancel(ctx)
	err := s.InTx(ctx, lease, func(ctx context.Context) error {
		must(t, add(ctx, s, "k"))
		cancel()
		return nil
	})
	wants(t, "ctx ends", err, context.Canceled)

	// One that waits for its turn leaves with its ctx.
	err = in(func(context.Context) error {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		err := s.InTx(ctx, lease, func(context.Context) error { t.Error("called"); return nil })
		wants(t, "wait for a turn", err, context.DeadlineExceeded)
		return mine
	})
	wants(t, "the one before", err, mine)

	if n := number(t, s, "k"); n != 0 {
		t.Errorf("%d aborted transactions were committed", n)
	}
	must(t, in(func(context.Context) error { return nil }))
	if n := number(t, s, "k"); n != 1 {
		t.Errorf("the lease does not go on: %d", n)
	}
}

// A conflict with a foreign transaction is run again until that one has ended,
// within ctx.
func TestP8_InTxConflicts(t *testing.T) {
	t.Parallel()
	s := shared(t)
	lease := guarded(t, locker(t, s, rowlock.Options{}), "k")
	must(t, add(t.Context(), s, "k"))
	unblock := blockDocument(t, data(s), "k")
	in := func(ctx context.Context, then func()) (calls int, err error) {
		err = s.InTx(ctx, lease, func(ctx context.Context) error {
			if calls++; calls == 3 {
				then()
			}
			return add(ctx, s, "k")
		})
		return calls, err
	}
	ctx := &overContext{Context: t.Context(), deadline: time.Now().Add(20 * time.Second), done: make(chan struct{})}
	calls, err := in(ctx, func() { close(ctx.done) })
	wants(t, "P8: at the end of ctx", err, context.DeadlineExceeded)
	if calls < 3 {
		t.Errorf("P8: called %d times in a conflict (%v)", calls, err)
	}
	calls, err = in(t.Context(), unblock)
	must(t, err)
	if calls < 3 || number(t, s, "k") != 2 {
		t.Errorf("P8: called %d times, number %d", calls, number(t, s, "k"))
	}
}

// The library ends the session that its own transaction pins a key with, and no
// other: not the caller's with a plain guard, and no later one of the same client.
func TestP14_OnlyTheOwnSessionIsEnded(t *testing.T) {
	t.Parallel()
	uri := testserver.DSN(t, testserver.Mongo)
	s := shared(t)
	taker := beside(t, s, uri)
	a, b := locker(t, s, rowlock.Options{}), locker(t, taker, rowlock.Options{})
	old := guarded(t, a, "k")
	must(t, s.InTx(patient(t), old, func(ctx context.Context) error { return add(ctx, s, "k") }))
	sess, ctx := begin(t, s)
	must(t, s.Guard(ctx, old))
	must(t, add(ctx, s, "k"))
	other := guarded(t, a, "other") // its session is another one
	err := s.InTx(patient(t), other, func(ctx context.Context) error {
		must(t, add(ctx, s, "other"))
		expire(t, s, "k")
		for range 3 {
			if _, err := b.TryAcquire(patient(t), "k", rowlock.Guarded()); !errors.Is(err, rowlock.ErrHeld) {
				t.Errorf("P4: takeover while the caller's transaction is open: %v", err)
			}
		}
		return nil
	})
	must(t, err)
	if err := sess.CommitTransaction(ctx); err != nil {
		t.Errorf("P14: the caller's transaction was ended: %v", err)
	}
	if number(t, s, "k") != 2 || number(t, s, "other") != 1 {
		t.Errorf("%d and %d commits, want 2 and 1", number(t, s, "k"), number(t, s, "other"))
	}
}

// The fence names the session of its token: not that of an older one, nor of a
// raise that came late.
func TestFenceNamesTheSession(t *testing.T) {
	t.Parallel()
	s := shared(t)
	c := locker(t, s, rowlock.Options{})
	first := guarded(t, c, "k")
	firstHold, err := rowlock.BeginGuard(first, s)
	must(t, err)
	own := s.txSessions.Find(firstHold.ID)
	_, id := own.ID.Binary()
	if f := fenceOf(t, s, "k"); f.Token != first.Token() || string(f.Lsid.Data) != string(id) {
		t.Errorf("fence %+v, want token %d and session %x", f, first.Token(), id)
	}
	must(t, first.Release(patient(t)))
	if s.txSessions.Find(firstHold.ID) != nil {
		t.Error("the session of a released lease is remembered")
	}
	for range 10 { // those in the driver's pool
		sess, err := s.db.Client().StartSession()
		must(t, err)
		if _, other := sess.ID().Lookup("id").Binary(); string(other) == string(id) {
			t.Error("P14: the caller got a session that the next holder of the key ends")
		}
	}
	second := guarded(t, c, "k")
	must(t, s.fence.Raise(t.Context(), fence.OfKey("k", first.Token(), own))) // a ghost
	secondHold, err := rowlock.BeginGuard(second, s)
	must(t, err)
	_, id = s.txSessions.Find(secondHold.ID).ID.Binary()
	for _, l := range []*rowlock.Lease{first, second} {
		if ended, err := s.fence.EndOlder(t.Context(), []string{"k"}, []int64{l.Token()}); ended || err != nil {
			t.Errorf("P14: ended the session of a token that is not older: %v, %v", ended, err)
		}
	}
	if f := fenceOf(t, s, "k"); f.Token != second.Token() || string(f.Lsid.Data) != string(id) {
		t.Errorf("fence %+v, want token %d and session %x", f, second.Token(), id)
	}
}

// Many guarded leases leave no sessions behind, in the Store or in the server.
func TestOwnSessionsAreForgotten(t *testing.T) {
	t.Parallel()
	s := shared(t)
	c := locker(t, s, rowlock.Options{})
	for range 3 * fence.MaxEnded / 2 {
		lease := guarded(t, c, "k")
		must(t, lease.Release(patient(t)))
	}
	if open, ended := s.txSessions.Count(); open != 0 || ended >= fence.MaxEnded {
		t.Errorf("%d sessions in use, %d ended ones kept", open, ended)
	}
}
