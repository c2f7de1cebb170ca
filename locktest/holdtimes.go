// How long a hold lasts: MinHold, MaxHold and NoRenew, by the database's clock.

package locktest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/rowlock/rowlock"
)

var holdTimes = []testCase{
	{name: "Hold_MinHoldRefusesToItsEnd", engine: true, run: minHold},
	{name: "Hold_MinHoldIsOver", engine: true, run: minHoldOver},
	{name: "Hold_MinHoldOutlivesItsHolder", long: true, run: minHoldKilled, needs: processes},
	{name: "Hold_MinHoldAfterClose", engine: true, run: minHoldClose},
	{name: "Hold_MinHoldAfterALostReply", engine: true, run: minHoldLostReply},
	{name: "Hold_NoRenewEndsAtItsTTL", engine: true, run: noRenew},
	{name: "Hold_NoRenewAndRenew", engine: true, run: noRenewRenewed},
}

// slack is by how much a span measured on this machine may fall short of one that
// the server measured, which may cut it to milliseconds.
const slack = 20 * time.Millisecond

// keptFor checks that key, granted after began for MinHold d and released since, is
// taken until d after the grant.
func keptFor(t testing.TB, e *env, key string, began time.Time, d time.Duration, others ...*rowlock.Client) {
	t.Helper()
	for _, c := range others {
		lease, err := c.TryAcquire(soon(t), key)
		took := time.Since(began)
		switch {
		case err == nil && took < d-slack:
			t.Errorf("granted %v after the grant before, MinHold %v", took, d)
			release1(t, lease)
		case err == nil: // a slow machine
			release1(t, lease)
			return
		case !errors.Is(err, rowlock.ErrHeld):
			t.Errorf("a try in another's MinHold: %v, want ErrHeld", err)
		}
	}
	info, err := others[0].Inspect(soon(t), key)
	if err != nil || info.Left > d {
		t.Errorf("inspect in MinHold: %+v, %v", info, err)
	}
	lease := acquire(t, others[0], key)
	if took := time.Since(began); took < d-slack {
		t.Errorf("granted %v after the grant before, MinHold %v", took, d)
	}
	release1(t, lease)
}

// minHold has a job of 50 ms that must run at most once in d.
func minHold(t *testing.T, e *env) {
	a, b := e.client(t, rowlock.Options{}), e.client(t, rowlock.Options{})
	d := 2 * time.Second
	key := e.key(t)
	began := time.Now()
	lease := acquire(t, a, key, rowlock.MinHold(d))
	time.Sleep(50 * time.Millisecond) // the job
	release1(t, lease)
	if err := lease.Err(); !errors.Is(err, rowlock.ErrReleased) {
		t.Errorf("Err of a released lease in its MinHold: %v", err)
	}
	if i, err := b.Inspect(soon(t), key); err != nil || time.Since(began) < d && (!i.Held || !i.Kept || i.Token > lease.Token()) {
		t.Errorf("inspect in MinHold: %+v, %v, want kept", i, err)
	}
	keptFor(t, e, key, began, d, b, a)
}

// minHoldOver: a holder that works for longer keeps the key, and frees it at once.
func minHoldOver(t *testing.T, e *env) {
	a, b := e.client(t, rowlock.Options{}), e.client(t, rowlock.Options{})
	key := e.key(t)
	lease := acquire(t, a, key, rowlock.MinHold(e.short))
	time.Sleep(e.short * 3 / 2)
	refused(t, b, key)
	release1(t, lease)
	freeSoon(t, b, key)
}

// minHoldKilled: MinHold is longer than the TTL, and the holder is killed.
func minHoldKilled(t *testing.T, e *env) {
	c := e.client(t, rowlock.Options{})
	d := 2*e.short + 2*time.Second
	key := e.key(t)
	p := e.start(t, job{Role: "hold", Key: key, TTL: e.short, MinHold: d})
	token := p.held()
	// It was granted before; the server knows when.
	info, err := c.Inspect(soon(t), key)
	if err != nil || !info.Held {
		t.Fatalf("inspect a held key: %+v, %v", info, err)
	}
	p.kill()
	lease := acquire(t, c, key)
	next, err := c.Inspect(soon(t), key)
	if err != nil {
		t.Fatal(err)
	}
	if took := next.Since.Sub(info.Since); took < d-slack {
		t.Errorf("granted %v after the grant before, MinHold %v", took, d)
	}
	if lease.Token() <= token {
		Breach(t, "P3", "token %d was granted after %d", lease.Token(), token)
	}
	release1(t, lease)
}

// minHoldClose: Close releases, and MinHold lasts.
func minHoldClose(t *testing.T, e *env) {
	a, b := e.client(t, rowlock.Options{}), e.client(t, rowlock.Options{})
	d := 2 * time.Second
	key := e.key(t)
	began := time.Now()
	acquire(t, a, key, rowlock.MinHold(d))
	if err := a.Close(soon(t)); err != nil {
		t.Fatal(err)
	}
	keptFor(t, e, key, began, d, b)
}

// minHoldLostReply: the release is repeated, and MinHold lasts.
func minHoldLostReply(t *testing.T, e *env) {
	a, f := e.faulty(t, rowlock.Options{})
	b := e.client(t, rowlock.Options{})
	d := 2 * time.Second
	key := e.key(t)
	began := time.Now()
	lease := acquire(t, a, key, rowlock.MinHold(d))
	f.On(OpRelease, Once(Fail))
	release1(t, lease)
	until(t, "the release is settled", func() bool { return a.Stats().Unresolved == 0 })
	keptFor(t, e, key, began, d, b)
}

func noRenew(t *testing.T, e *env) {
	a, b := e.client(t, rowlock.Options{}), e.client(t, rowlock.Options{})
	key := e.key(t)
	began := time.Now()
	lease := acquire(t, a, key, rowlock.NoRenew(), rowlock.TTL(2*e.short))
	next := acquire(t, b, key)
	if took := time.Since(began); took < 2*e.short/2 {
		t.Errorf("granted to another after %v of a TTL of %v", took, 2*e.short)
	}
	if reasonOf(lease.Err()) != rowlock.ReasonExpired {
		t.Errorf("P2: Err of an expired lease is %v, want ErrLost for reason expired", lease.Err())
	}
	release1(t, next)
}

func noRenewRenewed(t *testing.T, e *env) {
	a, b := e.client(t, rowlock.Options{}), e.client(t, rowlock.Options{})
	e.patiently(t, func(ttl time.Duration) error {
		key := e.key(t)
		lease := acquire(t, a, key, rowlock.NoRenew(), rowlock.TTL(ttl))
		defer lease.Release(context.Background())
		for range 6 {
			if err := survives(lease, ttl/3); err != nil {
				return err
			}
			if err := renew1(t, lease); err != nil {
				return err
			}
			if _, err := b.TryAcquire(soon(t), key); err == nil {
				return errors.New("the database granted a key whose lease is renewed")
			}
		}
		return nil
	})
}
