// P2: from the moment at which the database may grant the key to another, Err is
// non-nil at every look and Done is closed: when renewals fail, hang or are late.
// And the other side of it: a live holder keeps its lease.

package locktest

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
)

var loss = []testCase{
	{name: "P2_LiveHolderOutlivesFiveTTLs", engine: true, run: liveHolder},
	{name: "P2_CallerContextDoesNotMatter", engine: true, run: callerContext},
	{name: "P2_RenewalHangs", engine: true, run: func(t *testing.T, e *env) { renewalNeverComes(t, e, Hang) }},
	{name: "P2_RenewalFails", engine: true, run: func(t *testing.T, e *env) { renewalNeverComes(t, e, Fail) }},
	{name: "P2_SlowAnswersAreNotWorthMore", engine: true, run: slowAnswers},
	{name: "P2_LateAnswerRevivesNothing", engine: true, run: lateRenewal},
	{name: "P2_LateAnswerShortensNothing", engine: true, run: overtakenRenewal},
	{name: "P2_LateGrantIsNotTrusted", engine: true, run: lateGrant},
}

// survives waits for d and says why the lease was lost meanwhile.
func survives(lease *rowlock.Lease, d time.Duration) error {
	select {
	case <-lease.Done():
		return lease.Err()
	case <-time.After(d):
		return lease.Err()
	}
}

func liveHolder(t *testing.T, e *env) {
	a, b := e.client(t, rowlock.Options{}), e.client(t, rowlock.Options{})
	e.patiently(t, func(ttl time.Duration) error {
		key := e.key(t)
		lease := acquire(t, a, key, rowlock.TTL(ttl))
		defer lease.Release(context.Background())
		for range 10 {
			if err := survives(lease, ttl/2); err != nil {
				return err
			}
			other, err := b.TryAcquire(soon(t), key)
			if err == nil && lease.Err() == nil {
				Breach(t, "P1", "token %d was granted while token %d is trusted", other.Token(), lease.Token())
			}
			if err == nil {
				release1(t, other)
				return errors.New("the database granted the key of a live holder")
			}
		}
		return nil
	})
}

// oddKey is a value in a caller's context that no Store knows.
type oddKey struct{}

// callerContext takes leases with a context that ends at once after the grant:
// neither it nor what it carries has to do with the hold.
func callerContext(t *testing.T, e *env) {
	a := e.client(t, rowlock.Options{})
	e.patiently(t, func(ttl time.Duration) error {
		ctx := context.WithValue(context.Background(), oddKey{}, "odd")
		ctx, cancel := context.WithTimeout(ctx, patience(t))
		lease, err := a.Acquire(ctx, e.key(t), rowlock.TTL(ttl))
		cancel()
		if err != nil {
			t.Fatal(err)
		}
		defer lease.Release(ctx)
		inner := lease.Context(ctx)
		if !errors.Is(inner.Err(), context.Canceled) || lease.Err() != nil {
			t.Errorf("a lease's context of an ended one says %v, the lease %v", inner.Err(), lease.Err())
		}
		return survives(lease, 2*ttl)
	})
}

// renewalNeverComes cuts a holder off and has another wait for the key. Of two
// leases one is only watched by Done, the other only asked by Err, because Err
// closes Done.
func renewalNeverComes(t *testing.T, e *env, fault Hook) {
	a, f := e.faulty(t, rowlock.Options{TTL: e.ttl, Margin: e.ttl / 4})
	b := e.client(t, rowlock.Options{})
	asked, watched := e.key(t), e.key(t)
	var renewals atomic.Int64
	f.On(OpRenew, func(ctx context.Context, c *Call, send Send) ([]driver.Result, error) {
		renewals.Add(1)
		return fault(ctx, c, send)
	})
	f.On(OpRelease, fault) // an undo would free the key early
	l1, l2 := acquire(t, a, asked), acquire(t, a, watched)
	ctx := l2.Context(context.Background())

	next := acquire(t, b, asked)
	err := l1.Err()
	if err == nil {
		Breach(t, "P2", "%q was granted to another and Err of the old lease is nil", asked)
	}
	if !errors.Is(err, rowlock.ErrLost) || reasonOf(err) != rowlock.ReasonExpired {
		t.Errorf("P2: %q was granted to another and Err of the old lease is %v, want ErrLost for reason expired", asked, err)
	}
	var lost *rowlock.LostError
	if errors.As(err, &lost) && lost.Err == nil && renewals.Load() > 0 { // none: the process stood still
		t.Errorf("the loss does not tell of the failed renewals: %v", err)
	}
	closed(t, "Done of a lease that is not renewed is closed", l2.Done())
	closed(t, "the context of a lease that is not renewed is done", ctx.Done())
	if !errors.Is(context.Cause(ctx), rowlock.ErrLost) {
		t.Errorf("the cause of the lease's context is %v, want ErrLost", context.Cause(ctx))
	}
	f.Clear()
	if err := l1.Release(context.Background()); !errors.Is(err, rowlock.ErrLost) {
		t.Errorf("release of a lost lease: %v, want ErrLost", err)
	}
	if err := renew1(t, next); err != nil {
		t.Errorf("P5: the new holder lost its lease to the old one: %v", err)
	}
	release1(t, next)
	release1(t, acquire(t, b, watched))
}

// slowAnswers holds the answer to an acquire, and to the only renewal that is let
// through, back for half a TTL: the trust counts from before each was sent.
func slowAnswers(t *testing.T, e *env) {
	a, f := e.faulty(t, rowlock.Options{TTL: 2 * e.ttl})
	b := e.client(t, rowlock.Options{})
	slow := func(ctx context.Context, _ *Call, send Send) ([]driver.Result, error) {
		results, err := send(ctx)
		time.Sleep(e.ttl)
		return results, err
	}
	f.On(OpRelease, Fail) // an undo would free the key early
	f.On(OpAcquire, slow)
	acquired := acquire(t, a, e.key(t), rowlock.NoRenew())
	f.On(OpAcquire, nil)
	renewed := acquire(t, a, e.key(t), rowlock.NoRenew())
	f.On(OpRenew, slow)
	if err := renewed.Renew(soon(t)); err != nil {
		t.Logf("on a slow machine: %v", err)
	}
	var wg sync.WaitGroup
	for _, lease := range []*rowlock.Lease{acquired, renewed} {
		wg.Go(func() {
			next, err := b.Acquire(soon(t), lease.Key())
			if lease.Err() == nil {
				Breach(t, "P2", "%q was granted to another and Err of the old lease is nil", lease.Key())
			}
			if err != nil {
				t.Errorf("acquire: %v", err)
				return
			}
			if err := next.Release(context.Background()); err != nil {
				t.Errorf("release: %v", err)
			}
		})
	}
	wg.Wait()
}

// lateRenewal lets a renewal through and holds its answer back until the trust
// deadline has passed.
func lateRenewal(t *testing.T, e *env) {
	a, f := e.faulty(t, rowlock.Options{TTL: e.ttl})
	answered := make(chan struct{})
	var once sync.Once
	lease := acquire(t, a, e.key(t))
	f.On(OpRenew, func(_ context.Context, _ *Call, send Send) ([]driver.Result, error) {
		results, err := send(context.Background())
		<-lease.Done()
		once.Do(func() { close(answered) })
		return results, err
	})
	closed(t, "the answer to the late renewal", answered)
	for range 20 {
		if err := lease.Err(); reasonOf(err) != rowlock.ReasonExpired {
			t.Fatalf("P2: after a renewal answered too late Err is %v, want ErrLost for reason expired", err)
		}
		time.Sleep(time.Millisecond)
	}
}

// overtakenRenewal holds the answer to one renewal back until a later one was
// answered: the trust must not go back to the earlier one's.
func overtakenRenewal(t *testing.T, e *env) {
	a, f := e.faulty(t, rowlock.Options{})
	lease := acquire(t, a, e.key(t), rowlock.NoRenew())
	sent, back := make(chan struct{}), make(chan struct{})
	f.On(OpRenew, Once(func(ctx context.Context, _ *Call, send Send) ([]driver.Result, error) {
		results, err := send(ctx)
		close(sent)
		<-back
		return results, err
	}))
	first := make(chan error, 1)
	go func() { first <- lease.Renew(context.Background()) }()
	closed(t, "the first renewal was sent", sent)
	time.Sleep(300 * time.Millisecond) // so that the second one is worth more
	if err := renew1(t, lease); err != nil {
		t.Fatal(err)
	}
	until := lease.Until()
	close(back)
	if err := <-first; err != nil {
		t.Fatal(err)
	}
	// Until is the wall clock's, so a little back and forth is not the trust's.
	if now := lease.Until(); now.Before(until.Add(-100 * time.Millisecond)) {
		t.Fatalf("a late answer moved the trust deadline back by %v", until.Sub(now))
	}
	release1(t, lease)
}

// lateGrant holds the answer to an acquire back until the lease is worth nothing.
func lateGrant(t *testing.T, e *env) {
	a, f := e.faulty(t, rowlock.Options{})
	key := e.key(t)
	f.On(OpAcquire, Once(func(ctx context.Context, _ *Call, send Send) ([]driver.Result, error) {
		results, err := send(context.Background())
		<-ctx.Done()
		return results, err
	}))
	lease, err := a.TryAcquire(soon(t), key, rowlock.TTL(e.short))
	if err == nil {
		t.Fatalf("P2: a grant that came after its trust deadline was given out: Err is %v", lease.Err())
	}
	if errors.Is(err, rowlock.ErrHeld) {
		t.Fatalf("a late grant was reported as held: %v", err)
	}
	freeSoon(t, a, key)
}
