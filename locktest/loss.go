// P2: from the moment at which the database may grant the key to another, Err is
// non-nil at every look and Done is closed: when renewals fail, hang or are late.
// And the other side of it: a live holder keeps its lease. Every reason of a loss
// is seen once.

package locktest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
)

var loss = []testCase{
	{name: "P2_LiveHolderOutlivesFiveTTLs", run: liveHolder},
	{name: "P2_CallerContextDoesNotMatter", run: callerContext},
	{name: "P2_RenewalHangs", run: func(t *testing.T, e *env) { renewalNeverComes(t, e, Hang) }},
	{name: "P2_RenewalFails", run: func(t *testing.T, e *env) { renewalNeverComes(t, e, Fail) }},
	{name: "P2_LateAnswerRevivesNothing", run: lateRenewal},
	{name: "P2_LateAnswerShortensNothing", run: overtakenRenewal},
	{name: "P2_LateGrantIsNotTrusted", run: lateGrant},
	{name: "P2_ReasonTaken", run: reasonTaken},
	{name: "P2_ReasonForced", run: reasonForced, needs: forcing},
	{name: "P2_ReasonRemoved", run: reasonRemoved},
	{name: "P2_ReasonMaxHold", run: reasonMaxHold},
	{name: "P2_ReasonClosed", run: reasonClosed},
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
				t.Errorf("P1: token %d was granted while token %d is trusted", other.Token(), lease.Token())
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
		ctx, cancel := context.WithTimeout(ctx, patience)
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
	f.On(OpRenew, fault)
	f.On(OpRelease, fault) // an undo would free the key early
	l1, l2 := acquire(t, a, asked), acquire(t, a, watched)
	ctx := l2.Context(context.Background())

	next := acquire(t, b, asked)
	err := l1.Err()
	if !errors.Is(err, rowlock.ErrLost) || reasonOf(err) != rowlock.ReasonExpired {
		t.Errorf("P2: %q was granted to another and Err of the old lease is %v, want ErrLost for reason expired", asked, err)
	}
	var lost *rowlock.LostError
	if errors.As(err, &lost) && lost.Err == nil {
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
	if err := next.Renew(soon(t)); err != nil {
		t.Errorf("P5: the new holder lost its lease to the old one: %v", err)
	}
	release1(t, next)
	release1(t, acquire(t, b, watched))
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
	if err := lease.Renew(soon(t)); err != nil {
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

// early makes the server grant less than the client asked for: as if the server's
// clock had stepped forward, the hold ends under the eyes of its holder.
func early(ttl time.Duration) Hook {
	return func(ctx context.Context, c *Call, send Send) ([]driver.Result, error) {
		for i := range c.Requests {
			c.Requests[i].TTL = ttl
		}
		return send(ctx)
	}
}

// lostFor checks that everything about a lost lease says so, and says the same.
func lostFor(t testing.TB, lease *rowlock.Lease, reason rowlock.Reason) {
	t.Helper()
	closed(t, fmt.Sprintf("Done is closed for reason %s", reason), lease.Done())
	err := lease.Err()
	if !errors.Is(err, rowlock.ErrLost) || reasonOf(err) != reason {
		t.Errorf("Err is %v, want ErrLost for reason %s", err, reason)
	}
	if got := lease.Release(context.Background()); got != err {
		t.Errorf("release of a lost lease: %v, want what Err says: %v", got, err)
	}
	if got := lease.Renew(soon(t)); !errors.Is(got, rowlock.ErrLost) {
		t.Errorf("renewal of a lost lease: %v, want ErrLost", got)
	}
	if got := context.Cause(lease.Context(context.Background())); got != err {
		t.Errorf("the cause of a lost lease's context is %v, want %v", got, err)
	}
	if got := lease.Err(); got != err {
		t.Errorf("Err changed from %v to %v", err, got)
	}
}

func reasonTaken(t *testing.T, e *env) {
	a, f := e.faulty(t, rowlock.Options{})
	b := e.client(t, rowlock.Options{})
	key := e.key(t)
	f.On(OpAcquire, early(e.short))
	lease := acquire(t, a, key, rowlock.NoRenew())
	next := acquire(t, b, key)
	if err := lease.Renew(soon(t)); !errors.Is(err, rowlock.ErrLost) {
		t.Fatalf("P5: renewal of a lease whose key another has: %v, want ErrLost", err)
	}
	lostFor(t, lease, rowlock.ReasonTaken)
	if err := next.Renew(soon(t)); err != nil {
		t.Fatalf("P5: the new holder: %v", err)
	}
	release1(t, next)
}

func reasonForced(t *testing.T, e *env) {
	s := e.Open(t)
	a, b := e.client(t, rowlock.Options{TTL: e.ttl}), e.clientOn(t, s, rowlock.Options{})
	key := e.key(t)
	lease := acquire(t, a, key, rowlock.TTL(4*e.ttl))
	if info := force(t, s, key); !info.Held {
		t.Fatalf("force release of a held key says it was %+v", info)
	}
	release1(t, acquire(t, b, key)) // long before the holder's next renewal
	closed(t, "the next renewal tells the holder", lease.Done())
	// A newer hold of the key hides the force where the row has place for one.
	if r := reasonOf(lease.Err()); r != rowlock.ReasonTaken && r != rowlock.ReasonForced && r != rowlock.ReasonRemoved {
		t.Fatalf("Err is %v after a forced release", lease.Err())
	}
	lease = acquire(t, a, key)
	force(t, s, key)
	lostFor(t, lease, rowlock.ReasonForced)
}

func reasonRemoved(t *testing.T, e *env) {
	a, f := e.faulty(t, rowlock.Options{TTL: e.ttl})
	lease := acquire(t, a, e.key(t))
	f.On(OpRenew, func(_ context.Context, c *Call, _ Send) ([]driver.Result, error) {
		results := make([]driver.Result, len(c.Holds))
		for i := range results {
			results[i].Status = driver.Removed
		}
		return results, nil
	})
	lostFor(t, lease, rowlock.ReasonRemoved)
}

// reasonMaxHold has renewals that take longer than the grant did, so that the time
// which the server says is left at the end falls short of MaxHold.
func reasonMaxHold(t *testing.T, e *env) {
	a, f := e.faulty(t, rowlock.Options{})
	b := e.client(t, rowlock.Options{})
	f.On(OpRenew, func(ctx context.Context, _ *Call, send Send) ([]driver.Result, error) {
		time.Sleep(20 * time.Millisecond)
		return send(ctx)
	})
	key := e.key(t)
	e.patiently(t, func(ttl time.Duration) error {
		lease := acquire(t, a, key, rowlock.TTL(ttl), rowlock.MaxHold(2*ttl))
		began := time.Now()
		next := acquire(t, b, key)
		if err := lease.Err(); err == nil {
			t.Errorf("P2: the key was granted to another, and the lease that MaxHold ends says nothing")
		}
		t.Logf("granted to another after %v of MaxHold %v", time.Since(began), 2*ttl)
		release1(t, next)
		if r := reasonOf(lease.Err()); r == rowlock.ReasonExpired {
			return lease.Err()
		}
		lostFor(t, lease, rowlock.ReasonMaxHold)
		return nil
	})
}

func reasonClosed(t *testing.T, e *env) {
	a := e.client(t, rowlock.Options{})
	lease := acquire(t, a, e.key(t))
	if err := a.Close(soon(t)); err != nil {
		t.Fatal(err)
	}
	lostFor(t, lease, rowlock.ReasonClosed)
}
