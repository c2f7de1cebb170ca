package enginetest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
)

// TestHandoff: when the hold passes in memory, and when it goes back to the database.
func TestHandoff(t *testing.T) {
	minute := rowlock.TTL(time.Minute)
	for name, tc := range map[string]struct {
		o             rowlock.Options
		hold          time.Duration
		fault         func(call) verdict
		first, second []rowlock.Option
		wanted        bool // by another client
		handed        bool
	}{
		"plain":                {handed: true},
		"held long":            {hold: 60 * time.Millisecond, handed: true},
		"wanted":               {hold: 40 * time.Millisecond, wanted: true, handed: true},
		"wanted, held long":    {hold: 60 * time.Millisecond, wanted: true},
		"wanted, short bound":  {o: rowlock.Options{Handoff: 10 * time.Millisecond}, hold: 30 * time.Millisecond, wanted: true},
		"short bound":          {o: rowlock.Options{Handoff: 10 * time.Millisecond}, hold: 60 * time.Millisecond, handed: true},
		"wanted, bound set":    {o: rowlock.Options{Handoff: time.Second}, hold: 900 * time.Millisecond, wanted: true, handed: true},
		"off":                  {o: rowlock.Options{Handoff: -1}},
		"another TTL":          {second: []rowlock.Option{minute}},
		"MinHold":              {first: []rowlock.Option{rowlock.MinHold(time.Second)}},
		"MinHold asked for":    {second: []rowlock.Option{rowlock.MinHold(time.Second)}},
		"guarded asked for":    {second: []rowlock.Option{rowlock.Guarded()}},
		"NoRenew asked for":    {second: []rowlock.Option{rowlock.NoRenew()}},
		"NoRenew before":       {first: []rowlock.Option{rowlock.NoRenew()}, handed: true},
		"trust is half over":   {o: rowlock.Options{Handoff: time.Minute}, first: []rowlock.Option{rowlock.NoRenew()}, hold: 14 * time.Second},
		"MaxHold":              {first: []rowlock.Option{rowlock.MaxHold(10 * time.Minute)}},
		"MaxHold asked for":    {second: []rowlock.Option{rowlock.MaxHold(10 * time.Minute)}},
		"renewal on its way":   {o: rowlock.Options{Handoff: time.Minute}, hold: 11 * time.Second, fault: on("renew", verdict{slow: 5 * time.Second}), handed: true},
		"renewed, then passed": {o: rowlock.Options{Handoff: time.Minute}, hold: 11 * time.Second, handed: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFaultStore()
				f.set(tc.fault)
				c := newClient(t, f, tc.o)
				if tc.wanted {
					other := newClient(t, f.Store, rowlock.Options{})
					time.AfterFunc(time.Millisecond, func() {
						if l, err := other.Acquire(context.Background(), "k"); err == nil { // or the test is over
							l.Release(context.Background())
						}
					})
				}
				a, b := two(t, c, tc.hold, tc.first, tc.second)
				handed := holdOf(a).ID == holdOf(b).ID
				if handed != tc.handed {
					t.Errorf("handed off: %v", handed)
				}
				n := len(f.seen("acquire"))
				for _, release := range f.seen("release") {
					if release.hold[0].Next != nil { // as an acquire
						n++
					}
				}
				if handed != (n == 1) {
					t.Errorf("%d acquires", n)
				}
				if b.Token() <= a.Token() || !handed && b.Token() < a.Token()+driver.TokenRange {
					t.Errorf("token %d after %d", b.Token(), a.Token())
				}
				if handed && holdOf(b).Stored != holdOf(a).Stored {
					t.Error("the stored token is not the database's")
				}
				if !errors.Is(a.Err(), rowlock.ErrReleased) || b.Err() != nil {
					t.Errorf("first %v, second %v", a.Err(), b.Err())
				}
				f.set(nil)
				if a.Renew(context.Background()) == nil || a.Release(context.Background()) != nil || b.Err() != nil {
					t.Error("the old handle still does something")
				}
				if !b.Until().After(time.Now()) {
					t.Error("no trust left")
				}
				time.Sleep(2 * time.Minute)
				noRenew := len(tc.second) > 0 && name == "NoRenew asked for"
				if (b.Err() != nil) != noRenew {
					t.Errorf("after two minutes: %v", b.Err())
				}
				b.Release(context.Background())
			})
		})
	}
}

// TestP3_HandoffTokens: tokens are strictly increasing over local and remote
// holders, and the key goes round among the programs that want it.
func TestP3_HandoffTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		clients := []*rowlock.Client{newClient(t, f), newClient(t, f), newClient(t, f)}
		var mu sync.Mutex
		var last int64
		held := make([]int, len(clients))
		end := time.Now().Add(10 * time.Second)
		var wg sync.WaitGroup
		for i, c := range clients {
			for range 8 {
				wg.Go(func() {
					for time.Now().Before(end) {
						l := acquire(t, c, "k")
						mu.Lock()
						if l.Token() <= last {
							t.Errorf("token %d after %d", l.Token(), last)
						}
						last = l.Token()
						held[i]++
						mu.Unlock()
						time.Sleep(5 * time.Millisecond)
						if err := l.Release(context.Background()); err != nil {
							t.Error(err)
						}
					}
				})
			}
		}
		wg.Wait()
		if slices.Max(held) > 4*slices.Min(held) {
			t.Errorf("holds of each client: %v", held)
		}
	})
}

// TestHandoffTokenRange: local holders never use up the range of a grant.
func TestHandoffTokenRange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		c := newClient(t, f, rowlock.Options{Handoff: time.Second})
		grants := make(map[driver.HoldID]int)
		var mu sync.Mutex
		var last int64
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				for range 300 {
					l := acquire(t, c, "k")
					mu.Lock()
					grants[holdOf(l).ID]++
					if l.Token() <= last || l.Token()-holdOf(l).Stored >= driver.TokenRange {
						t.Errorf("token %d after %d, granted %d", l.Token(), last, holdOf(l).Stored)
					}
					last = l.Token()
					mu.Unlock()
					l.Release(context.Background())
				}
			})
		}
		wg.Wait()
		if len(grants) < 3 {
			t.Errorf("%d grants for 3000 holders", len(grants))
		}
	})
}

// TestHandoffMaxHold counts from the local grant.
func TestHandoffMaxHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		c := newClient(t, f, rowlock.Options{Handoff: time.Minute})
		_, b := two(t, c, 8*time.Second, nil, []rowlock.Option{rowlock.MaxHold(time.Minute)})
		start := time.Now()
		<-b.Done()
		if d := time.Since(start); d > 57*time.Second || d < 56900*time.Millisecond || reason(b.Err()) != rowlock.ReasonMaxHold {
			t.Errorf("ended after %v: %v", d, b.Err())
		}
	})
}

// TestP2_RenewalOnItsWayAsTheGrantPasses: its answer is that of the grant: it moves the
// deadline of the next holder, or ends its hold.
func TestP2_RenewalOnItsWayAsTheGrantPasses(t *testing.T) {
	for _, lost := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			f := newFaultStore()
			f.set(on("renew", verdict{delay: 4 * time.Second}))
			c := newClient(t, f, rowlock.Options{Handoff: time.Minute})
			a, b := two(t, c, 11*time.Second, nil, nil)
			if holdOf(a).ID != holdOf(b).ID {
				t.Fatal("not handed off")
			}
			f.set(nil)
			before := b.Until()
			if lost {
				f.Expire("k")
			}
			time.Sleep(6 * time.Second)
			switch err := b.Err(); {
			case lost && reason(err) != rowlock.ReasonTaken:
				t.Errorf("P2: the loss that the renewal told of: %v", err)
			case !lost && (err != nil || !b.Until().After(before)):
				t.Errorf("the renewal did not count: %v, until %v, before %v", err, b.Until(), before)
			}
			b.Release(context.Background())
		})
	}
}

// TestP2_HandedOffAndLost: the next local holder hears of a loss like any other.
func TestP2_HandedOffAndLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		c := newClient(t, f)
		_, b := two(t, c, 0, nil, nil)
		f.set(on("renew", verdict{hang: true}))
		next := acquire(t, newClient(t, f.Store, rowlock.Options{}), "k")
		if b.Err() == nil || next.Token() <= b.Token() {
			t.Errorf("Err %v, token %d after %d", b.Err(), next.Token(), b.Token())
		}
	})
}
