package mysqllock

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mysql/internal/session"
)

// The steps after the session was killed grant nothing and harm nobody.
func TestForUpdateDelayedSteps(t *testing.T) {
	onBoth(t, func(t *testing.T, l *lab) {
		a, b := client{t: t, Store: l.store()}, client{t: t, Store: l.bare()}
		f := a.strategy.(*session.ForUpdate)
		a.release(a.granted("warm", time.Minute))
		refused := 0
		for round := range 12 {
			key := fmt.Sprint("key", round)
			ctx := patient(t)
			q := request(key, time.Minute)
			x := f.Attempt(q)
			own, err := x.Begin(ctx)
			must(t, err)
			if r, err := x.Lock(ctx); r.Status != driver.Unknown || err != nil {
				t.Fatalf("lock: %+v, %v", r, err)
			}
			kill := func() {
				exec(t, l.db, fmt.Sprintf("KILL CONNECTION %d", own.ID))
			}
			var next driver.Hold
			if round%2 == 0 { // killed after (2)
				kill()
				next = freeSoon(t, b, key)
				_, _ = x.Write(ctx)
			} else { // killed after (3)
				if r, err := x.Write(ctx); err != nil || r.Status != driver.Unknown {
					t.Fatalf("write: %+v, %v", r, err)
				}
				kill()
				next = freeSoon(t, b, key)
			}
			if mine, err := x.Confirm(ctx); err != nil || !mine {
				refused++
			}
			own.Broken = true
			own.Put()
			if i := b.inspect(key); !i.Held || i.Token != next.Token {
				t.Fatalf("the lease row says %+v, want token %d", i, next.Token)
			}
			b.wants("renew", b.renew(next)[0].Status, driver.Alive)
		}
		if refused != 12 {
			t.Fatalf("%d of 12 refused", refused)
		}
	})
}

// A probe of a free key, here one that takes its time, is not taken for the holder
// that released the key: the lease row still has its end.
func TestForUpdateAProbeIsNoHolder(t *testing.T) {
	onBoth(t, func(t *testing.T, l *lab) {
		a, b := client{t: t, Store: l.store()}, client{t: t, Store: l.bare()}
		a.release(a.granted("a", time.Hour))
		tx, err := l.db.Begin()
		must(t, err)
		defer func() { _ = tx.Rollback() }()
		var name string
		must(t, tx.QueryRow(a.strategy.(*session.ForUpdate).ProbeStatement([]string{"a"})).Scan(&name))
		q := request("a", time.Hour)
		done := make(chan driver.Result, 1)
		go func() {
			for { // it tries for some milliseconds, which the probe may outlast
				r, err := b.Acquire(patient(t), []driver.Request{q})
				if err != nil || r[0].Status != driver.Held || r[0].Left > 0 {
					if err != nil {
						t.Error(err)
						r = make([]driver.Result, 1)
					}
					done <- r[0]
					return
				}
			}
		}()
		select {
		case r := <-done:
			t.Fatalf("under a probe: %v, left %v", r.Status, r.Left)
		case <-time.After(100 * time.Millisecond):
		}
		must(t, tx.Rollback())
		b.wants("after the probe", (<-done).Status, driver.Granted)
	})
}

func TestForUpdateFreshKeyRace(t *testing.T) {
	onBoth(t, func(t *testing.T, l *lab) {
		stores := []client{{t: t, Store: l.store()}, {t: t, Store: l.bare()}, {t: t, Store: l.bare()}, {t: t, Store: l.bare()}}
		for _, c := range stores {
			c.release(c.granted("warm", time.Minute))
		}
		for round := range 3 {
			key := fmt.Sprint("fresh", round)
			var granted, other atomic.Int32
			var wg sync.WaitGroup
			start := make(chan struct{})
			for i := range 64 {
				wg.Go(func() {
					<-start
					results, err := stores[i%len(stores)].Acquire(patient(t), []driver.Request{request(key, time.Minute)})
					switch {
					case err != nil:
						t.Error(err)
					case results[0].Status == driver.Granted:
						granted.Add(1)
					case results[0].Status != driver.Held && results[0].Status != driver.Pinned: // a slow takeover looks pinned
						other.Add(1)
						t.Errorf("%v: %v", results[0].Status, results[0].Err)
					}
				})
			}
			close(start)
			wg.Wait()
			if granted.Load() > 1 || other.Load() > 0 {
				t.Fatalf("%d granted", granted.Load())
			}
			if granted.Load() == 0 { // they met each other's probes; the next one gets it
				freeSoon(t, stores[0], key)
			}
		}
	})
}
