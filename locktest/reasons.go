// P2: why a lease was lost. Each reason is made to happen, and everything about the
// lease must tell of it from then on.

package locktest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
)

var reasons = []testCase{
	{name: "P2_ReasonTaken", engine: true, run: reasonTaken},
	{name: "P2_ReasonForced", engine: true, run: reasonForced, needs: forcing},
	{name: "P2_ReasonRemoved", engine: true, run: reasonRemoved},
	{name: "P2_ReasonMaxHold", engine: true, run: reasonMaxHold},
	{name: "P2_ReasonClosed", engine: true, run: reasonClosed},
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
	if err := renew1(t, next); err != nil {
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
		granted := time.Now()
		for lease.Err() == nil {
			before := time.Since(granted)
			info, err := b.Inspect(soon(t), key)
			if err == nil && info.Held && before+info.Left > 2*ttl+slack {
				t.Errorf("%v after the grant the hold has %v left, MaxHold %v", before, info.Left, 2*ttl)
			}
			if before = time.Since(granted); before > 2*ttl && lease.Err() == nil {
				t.Errorf("the lease is held %v after the grant, MaxHold %v", before, 2*ttl)
			}
			time.Sleep(ttl / 8)
		}
		next := acquire(t, b, key)
		if err := lease.Err(); err == nil {
			Breach(t, "P2", "the key was granted to another, and the lease that MaxHold ends says nothing")
		}
		t.Logf("granted to another after %v of MaxHold %v", time.Since(granted), 2*ttl)
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
