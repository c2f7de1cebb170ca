package enginetest

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rowlock/rowlock"
)

// waits begins a wait of c for "k", and returns when it stands. The lease comes later.
func waits(t *testing.T, c *rowlock.Client, opts ...rowlock.Option) <-chan *rowlock.Lease {
	t.Helper()
	got := make(chan *rowlock.Lease, 1)
	go func() { got <- acquire(t, c, "k", opts...) }()
	synctest.Wait()
	return got
}

// TestP2_TrustOfAPassedKey: who was passed a key and cannot renew it knows that before the next is passed it, however late the
// answer to the look came that found it.
func TestP2_TrustOfAPassedKey(t *testing.T) {
	for _, slow := range []time.Duration{0, 100 * time.Millisecond, 300 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			f, next := newFaultStore(), newFaultStore()
			next.Store = f.Store
			a, b, c := newClient(t, f.Store), newClient(t, f), newClient(t, next)
			holder := acquire(t, a, "k")
			passed, behind := waits(t, b), waits(t, c)
			f.set(func(q call) verdict {
				switch q.op {
				case "renew":
					return verdict{hang: true}
				case "inspect":
					return verdict{slow: slow}
				}
				return verdict{}
			})
			release(t, holder)
			lease := <-passed
			<-behind
			if err := lease.Err(); err == nil {
				t.Errorf("P2: with looks of %v: a passed key is trusted when the next has it", slow)
			}
		})
	}
}

// TestP1_LateAnswerToOneThatStands: an attempt that stands is granted the key, and the answer comes too late. The look that follows
// finds the hold, and the caller gets it. Nothing takes it back.
func TestP1_LateAnswerToOneThatStands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		a, b, c := newClient(t, f.Store), newClient(t, f), newClient(t, f.Store)
		release(t, acquire(t, a, "k", rowlock.MinHold(3*time.Second)))
		got := waits(t, b, rowlock.TTL(10*time.Second))
		f.set(func(q call) verdict {
			switch q.op {
			case "acquire":
				return verdict{slow: 7 * time.Second}
			case "release":
				return verdict{delay: time.Second}
			}
			return verdict{}
		})
		lease := <-got
		for range 20 {
			time.Sleep(time.Second)
			if other, err := c.TryAcquire(context.Background(), "k"); !errors.Is(err, rowlock.ErrHeld) {
				t.Fatalf("P1: another has the key, while the first says %v: %v, %v", lease.Err(), other, err)
			}
		}
		if err := lease.Err(); err != nil {
			t.Error(err)
		}
		f.set(nil)
		release(t, lease)
	})
}
