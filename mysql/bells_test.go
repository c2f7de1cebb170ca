package mysqllock

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
)

// ringers are programs with bells: a store with connections of its own and a client
// each.
func ringers(t *testing.T, l *lab, n, most int) (clients []*rowlock.Client, stores []*Store) {
	t.Helper()
	l.bells = most
	for range n {
		s := l.store()
		c, err := rowlock.New(s, rowlock.Options{TTL: time.Minute, Reap: -1, HandOn: -1})
		must(t, err)
		t.Cleanup(func() { _ = c.Close(within(t, 10*time.Second)) })
		clients, stores = append(clients, c), append(stores, s)
	}
	return clients, stores
}

// begin starts an acquire in the background.
func begin(t *testing.T, c *rowlock.Client, key string) <-chan *rowlock.Lease {
	t.Helper()
	got := make(chan *rowlock.Lease, 1)
	go func() {
		defer close(got)
		if l, err := c.Acquire(within(t, patience), key); err != nil {
			t.Error(err)
		} else {
			got <- l
		}
	}()
	return got
}

// inLine waits until so many sessions of this test's database stand in a GET_LOCK.
func inLine(t *testing.T, l *lab, n int) {
	t.Helper()
	eventually(t, fmt.Sprint(n, " in line"), func() bool { return len(l.lines(t)) == n })
}

// lines are the sessions that stand in line.
func (l *lab) lines(t *testing.T) (ids []int) {
	t.Helper()
	rows, err := l.db.Query("SELECT ID FROM information_schema.PROCESSLIST WHERE DB=DATABASE() AND INFO LIKE 'SELECT GET_LOCK%'")
	must(t, err)
	defer rows.Close()
	for rows.Next() {
		var id int
		must(t, rows.Scan(&id))
		ids = append(ids, id)
	}
	must(t, rows.Err())
	return ids
}

// carrier is the bell that a store keeps with a key it holds.
func carrier(s *Store) *bell {
	b := s.keep.(*leases).bells
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range b.held {
		return e
	}
	return nil
}

// resting is how many sessions of a store have no bell.
func resting(s *Store) int {
	b := s.keep.(*leases).bells
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.idle)
}

// TestBells: waiters are woken at once, in their order, for few statements.
func TestBells(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		const n = 3
		clients, stores := ringers(t, l, n, 1)
		for _, s := range stores {
			client{t: t, Store: s}.calm()
		}
		lease, err := clients[0].Acquire(t.Context(), "k")
		must(t, err)
		if carrier(stores[0]) != nil {
			t.Error("a key that nobody waited for has a bell")
		}
		next := begin(t, clients[1], "k") // it comes to the front
		eventually(t, "one in front", func() bool { return stores[1].keep.(*leases).bells.heads.Load() == 1 })
		after := begin(t, clients[2], "k")
		inLine(t, l, 1)
		sum := func() (n uint64) {
			for _, s := range stores {
				n += s.Statements()
			}
			return n
		}
		const turns = 24
		var took []time.Duration
		before, start := sum(), time.Now()
		for turn := 1; turn <= turns; turn++ {
			released := time.Now()
			must(t, lease.Release(t.Context()))
			if lease, next = <-next, after; lease == nil {
				return
			}
			took = append(took, time.Since(released))
			after = begin(t, clients[(turn+2)%n], "k")
			inLine(t, l, 2)
			if carrier(stores[turn%n]) == nil {
				t.Fatalf("turn %d: the holder has no bell", turn)
			}
			time.Sleep(100 * time.Millisecond) // two would send a dozen probes
		}
		// Refusal, line, grant, release, ring; now and then another is prepared, or the
		// line is too long for a slice.
		if n, most := sum()-before, 9*turns+4*uint64(time.Since(start)/time.Second); n > most {
			t.Errorf("%d statements in %d turns, want at most %d", n, turns, most)
		}
		slices.Sort(took)
		t.Logf("woken after %v", took[len(took)/2])
		before, start = sum(), time.Now()
		time.Sleep(2 * time.Second)
		if n, most := sum()-before, 6+4*uint64(time.Since(start)/time.Second); n > most {
			t.Errorf("%d statements in 2 s for two in line, want at most %d", n, most)
		}
		must(t, lease.Release(t.Context()))
		lease = <-next
		must(t, lease.Release(t.Context()))
		lease = <-after
		must(t, lease.Release(t.Context()))
		for i, s := range stores {
			eventually(t, "no bell is left", func() bool { return carrier(s) == nil })
			must(t, clients[i].Close(t.Context()))
		}
	})
}

// contended lets the second client hold the key "k" with its bell, and the others
// nothing.
func contended(t *testing.T, clients []*rowlock.Client, stores []*Store) *rowlock.Lease {
	t.Helper()
	first, err := clients[0].Acquire(t.Context(), "k")
	must(t, err)
	got := begin(t, clients[1], "k")
	eventually(t, "one in front", func() bool { return stores[1].keep.(*leases).bells.heads.Load() == 1 })
	must(t, first.Release(t.Context()))
	lease := <-got
	if lease == nil || carrier(stores[1]) == nil {
		t.Fatal("the holder has no bell")
	}
	return lease
}

// later is the next lease that one of them gets.
func later(of ...<-chan *rowlock.Lease) *rowlock.Lease {
	for {
		for _, c := range of {
			select {
			case l, ok := <-c:
				if ok {
					return l
				}
			default:
			}
		}
		time.Sleep(time.Millisecond)
	}
}

// TestBellsAreBounded: more keys are waited for than there are bells. All are
// granted, and no more connections are used than allowed.
func TestBellsAreBounded(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		const bells, keys = 2, 6
		s, user := asUser(t, l, Options{Bells: bells})
		c, err := rowlock.New(s, rowlock.Options{Reap: -1})
		must(t, err)
		holders, _ := ringers(t, l, 1, 0)
		var held []*rowlock.Lease
		var waits []<-chan *rowlock.Lease
		for i := range keys {
			lease, err := holders[0].Acquire(t.Context(), fmt.Sprint("k", i))
			must(t, err)
			held = append(held, lease)
			waits = append(waits, begin(t, c, lease.Key()))
		}
		b := s.keep.(*leases).bells
		eventually(t, "all bells are in use", func() bool { return b.heads.Load() == bells })
		for range 50 {
			if n := len(sessionsOf(t, l, user)); n > defaultConnections+bells {
				t.Fatalf("%d connections, want at most %d", n, defaultConnections+bells)
			}
			time.Sleep(10 * time.Millisecond)
		}
		for i, lease := range held {
			must(t, lease.Release(t.Context()))
			must(t, (<-waits[i]).Release(t.Context()))
		}
		must(t, c.Close(t.Context()))
		must(t, s.Close())
		eventually(t, "all connections closed", func() bool { return len(sessionsOf(t, l, user)) == 0 })
		exec(t, l.db, "DROP USER "+user+"@'%'")
	})
}

// TestBellsOptions: what the number of bells means where.
func TestBellsOptions(t *testing.T) {
	if _, err := Open("u@tcp(x)/d", Options{Bells: -1}); !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("Bells -1: %v", err)
	}
	for _, strategy := range []Strategy{VersionColumn, UniqueInsert, SelectForUpdate} {
		for _, bells := range []int{0, 3} {
			s, err := Open("u@tcp(x)/d", Options{Strategy: strategy, Bells: bells})
			must(t, err)
			if want := bells > 0 || strategy == SelectForUpdate; s.Limits().Queue != want {
				t.Errorf("%s with %d bells: queue %v", strategy, bells, !want)
			}
			must(t, s.Close())
		}
	}
}
