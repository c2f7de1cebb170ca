package mysqllock

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
)

// TestP5_StaleHolder: a hold that has expired, and whose key another Store was granted since, can neither be renewed nor released: the
// other's hold stays as it is. So can a reader's, beside an exclusive one. The suite has more (P5_…).
func TestP5_StaleHolder(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		before, after := client{t: t, Store: l.store()}, client{t: t, Store: l.bare()}
		for what, q := range map[string]driver.Request{"exclusive": request("k", time.Second), "reader": reader("read", time.Second)} {
			old := before.grant(q)
			next := request(q.Key, time.Minute)
			var hold driver.Hold
			eventually(t, "the key is granted anew", func() bool {
				r := after.acquire(next)[0]
				hold = driver.Hold{Key: q.Key, ID: next.ID, Token: r.Token, Stored: r.Stored, TTL: next.TTL}
				return r.Status == driver.Granted
			})
			if r := before.renew(old)[0]; r.Status == driver.Alive {
				t.Errorf("P5: %s: a stale hold was renewed: %+v", what, r)
			}
			if r := before.release(old)[0]; r.Status == driver.Released {
				t.Errorf("P5: %s: a stale hold was released: %+v", what, r)
			}
			if i := after.inspect(q.Key); !i.Held || i.Token != hold.Stored {
				t.Errorf("P5: %s: the key is %+v, want the hold with %d", what, i, hold.Stored)
			}
			after.alive("renew the newer hold", hold)
			after.wants("release the newer hold", after.release(hold)[0].Status, driver.Released)
		}
	})
}

// TestP17_SlotNumbers: callers of three programs take slots of one key. No number is beyond the slots, and none is held twice.
func TestP17_SlotNumbers(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, l *lab) {
		const slots, callers, cycles = 3, 4, 15
		l.store()
		var inside [slots]atomic.Pointer[rowlock.Lease]
		var all sync.WaitGroup
		for range 3 {
			p := l.programOn(t, l.bare(), rowlock.Options{})
			for range callers {
				all.Go(func() {
					for range cycles {
						lease, err := p.Client.Acquire(patient(t), "k", rowlock.Slots(slots))
						if err != nil {
							t.Error(err)
							return
						}
						n := lease.Slot()
						if n < 0 || n >= slots {
							t.Errorf("P17: slot %d of %d", n, slots)
							return
						}
						if other := inside[n].Swap(lease); other != nil && other.Err() == nil && lease.Err() == nil {
							t.Errorf("P17: slot %d is held twice, with tokens %d and %d", n, other.Token(), lease.Token())
						}
						inside[n].CompareAndSwap(lease, nil)
						if err := lease.Release(patient(t)); err != nil && !errors.Is(err, rowlock.ErrLost) {
							t.Error(err)
						}
					}
				})
			}
		}
		all.Wait()
	})
}
