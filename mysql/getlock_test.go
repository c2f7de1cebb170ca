package mysqllock

import (
	"database/sql"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mysql/internal/getlock"
)

// waiters are programs with named locks: a store with connections of its own and a client
// each.
func waiters(t *testing.T, l *lab, n, most int) (clients []*rowlock.Client, stores []*Store) {
	t.Helper()
	l.wakeups = most
	for range n {
		s := l.store()
		c, err := rowlock.New(s, rowlock.Options{TTL: time.Minute, ReapInterval: -1, Handoff: -1})
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
		if l, err := c.Acquire(patient(t), key); err != nil {
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

// turnsOf are the sessions of a store that have a turn, and how many have none.
func turnsOf(s *Store) (turns []*getlock.Turn, idle int) {
	return s.locks.Turns(), len(s.locks.Sessions.Idle())
}

// hasTurns reports whether a store has so many turns.
func hasTurns(s *Store, want int) bool {
	turns, _ := turnsOf(s)
	return len(turns) == want
}

// rests reports whether so many sessions of a store have no turn.
func rests(s *Store, want int) bool {
	_, idle := turnsOf(s)
	return idle == want
}

// used reports whether a session has the named lock of a key.
func (l *lab) used(t *testing.T, key string) bool {
	t.Helper()
	text := getlock.WaitStatement("`"+l.table()+"`", key)
	text = strings.Replace(text[:strings.LastIndexByte(text, ',')]+")", "GET_LOCK", "IS_USED_LOCK", 1)
	var by sql.NullInt64
	must(t, l.db.QueryRow(text).Scan(&by))
	return by.Valid
}

// standing waits until so many programs stand in the line of a key.
func standing(t *testing.T, s *Store, key string, n int) {
	t.Helper()
	eventually(t, fmt.Sprint(n, " stand"), func() bool {
		infos, err := s.Inspect(patient(t), []string{key})
		must(t, err)
		return infos[0].Waiting == n
	})
}

// TestTurns: a release wakes the first of the line, for few statements; the others wait for no lock of the server, and a key
// that nobody waits for has none.
func TestTurns(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		const n = 3
		clients, stores := waiters(t, l, n, 1)
		lease, err := clients[0].Acquire(patient(t), "k")
		must(t, err)
		if l.used(t, "k") || !hasTurns(stores[0], 0) {
			t.Error("a key that nobody waits for has a named lock")
		}
		next := begin(t, clients[1], "k")
		eventually(t, "it is the turn of the first", func() bool { return hasTurns(stores[1], 1) })
		if !l.used(t, "k") {
			t.Error("a turn without a named lock")
		}
		after := begin(t, clients[2], "k")
		standing(t, stores[0], "k", 2)
		inLine(t, l, 0)
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
			standing(t, stores[0], "k", 2)
		}
		slices.Sort(took)
		t.Logf("woken after %v", took[len(took)/2])
		// Two to stand, a look, the wait for the lock, the release of both; now and then another is prepared. The first looks too.
		if n, most := sum()-before, 10*turns+80*uint64(time.Since(start)/time.Second+1); n > most {
			t.Errorf("%d statements in %d turns, want at most %d", n, turns, most)
		}
		must(t, lease.Release(t.Context()))
		lease = <-next
		must(t, lease.Release(t.Context()))
		lease = <-after
		must(t, lease.Release(t.Context()))
		for i, s := range stores {
			eventually(t, "no turn is left", func() bool { return hasTurns(s, 0) })
			must(t, clients[i].Close(t.Context()))
		}
		eventually(t, "no named lock is left", func() bool { return !l.used(t, "k") })
	})
}

// TestTurnOfALoneCaller: a caller that takes a free key again and again sends two statements
// (three under UniqueInsert) each time, and no named lock is used.
func TestTurnOfALoneCaller(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		clients, stores := waiters(t, l, 1, 0)
		cycle := func() {
			lease, err := clients[0].Acquire(patient(t), "k")
			must(t, err)
			must(t, lease.Release(t.Context()))
		}
		for range 5 {
			cycle()
		}
		const cycles = 50
		each := uint64(2)
		if l.strategy == UniqueInsert {
			each = 3
		}
		least := uint64(math.MaxUint64) // of several tries: a statement that a slow server does not answer in time goes again
		for try := 0; try < 10 && least > each*cycles+5; try++ {
			before := stores[0].Statements()
			for range cycles {
				cycle()
			}
			least = min(least, stores[0].Statements()-before)
		}
		if least > each*cycles+5 {
			t.Errorf("%d statements in %d cycles, want %d a cycle", least, cycles, each)
		}
		if turns, idle := turnsOf(stores[0]); len(turns)+idle > 0 {
			t.Error("a session for named locks was opened")
		}
	})
}

// contended lets the second client hold the key "k" with its turn, and the others nothing.
func contended(t *testing.T, clients []*rowlock.Client, stores []*Store, opts ...rowlock.Option) *rowlock.Lease {
	t.Helper()
	first, err := clients[0].Acquire(patient(t), "k")
	must(t, err)
	got := make(chan *rowlock.Lease, 1)
	go func() {
		defer close(got)
		if l, err := clients[1].Acquire(patient(t), "k", opts...); err != nil {
			t.Error(err)
		} else {
			got <- l
		}
	}()
	eventually(t, "it is the turn of the second", func() bool { return hasTurns(stores[1], 1) })
	must(t, first.Release(t.Context()))
	lease := <-got
	if lease == nil || !hasTurns(stores[1], 1) {
		t.Fatal("the holder has no turn")
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

// TestNamedLocksAreBounded: more keys are waited for than there are sessions. All are
// granted, and no more connections are used than allowed.
func TestNamedLocksAreBounded(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		const sessions, keys = 2, 6
		s, user := asUser(t, l, Options{WakeupConns: sessions})
		c, err := rowlock.New(s, rowlock.Options{ReapInterval: -1})
		must(t, err)
		holders, _ := waiters(t, l, 1, -1)
		var held []*rowlock.Lease
		var waits []<-chan *rowlock.Lease
		for i := range keys {
			lease, err := holders[0].Acquire(patient(t), fmt.Sprint("k", i))
			must(t, err)
			held = append(held, lease)
			waits = append(waits, begin(t, c, lease.Key()))
		}
		eventually(t, "all sessions are in use", func() bool { return hasTurns(s, sessions) })
		for range 50 {
			if n := len(sessionsOf(t, l, user)); n > defaultConnections+sessions {
				t.Fatalf("%d connections, want at most %d", n, defaultConnections+sessions)
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

// TestNamedLockIsAQueue: turns come in the order of the waiters, and are told apart by key and table. Who waits for longer than one GET_LOCK goes on.
func TestNamedLockIsAQueue(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		_, stores := waiters(t, l, 3, 3)
		turn := func(s *Store, key string) (end func()) {
			t.Helper()
			turn, err := s.WaitTurn(patient(t), key)
			must(t, err)
			return turn
		}
		first := turn(stores[0], "k")
		turn(stores[1], "K")()
		turn(stores[1], "k ")()
		other := *l
		other.strategy = UniqueInsert + VersionColumn - l.strategy
		turn(other.store(), "k")()

		order := make(chan int, 2)
		for i := 1; i <= 2; i++ {
			go func() {
				turn, err := stores[i].WaitTurn(patient(t), "k")
				if err != nil {
					t.Errorf("turn %d: %v", i, err)
					return
				}
				order <- i
				turn()
			}()
			inLine(t, l, i)
		}
		first()
		if a, b := <-order, <-order; a != 1 || b != 2 {
			t.Errorf("waiter %d before waiter %d", a, b)
		}
		eventually(t, "no turn is left", func() bool { return !l.used(t, "k") })

		first = turn(stores[0], "k")
		time.AfterFunc((getlock.WaitSeconds+1)*time.Second, first)
		turn(stores[1], "k")()
	})
}

// TestWakeupConns: what the number means where.
func TestWakeupConns(t *testing.T) {
	sessions := func(s *Store) int {
		if s.locks == nil {
			return 0
		}
		most := 0
		for s.locks.Sessions.Room(most) == nil {
			most++
		}
		return most
	}
	for _, strategy := range []Strategy{VersionColumn, UniqueInsert, SelectForUpdate} {
		for n, want := range map[int]int{-7: 0, -1: 0, 0: defaultWakeupConns, 3: 3} {
			s, err := Open("u@tcp(x)/d", Options{Strategy: strategy, WakeupConns: n})
			must(t, err)
			if strategy == SelectForUpdate {
				want = 0
			}
			if got := sessions(s); got != want {
				t.Errorf("%s, WakeupConns %d: %d sessions, want %d", strategy, n, got, want)
			}
			if l := s.Limits(); l.Turns != (want > 0) || l.Queue != (strategy == SelectForUpdate) {
				t.Errorf("%s, WakeupConns %d: turns %v, queue %v", strategy, n, l.Turns, l.Queue)
			}
			if _, err := s.WaitTurn(patient(t), "k"); want == 0 && (!errors.Is(err, driver.ErrNoPlace) || !errors.Is(err, driver.ErrNotSupported)) {
				t.Errorf("%s, WakeupConns %d: WaitTurn: %v", strategy, n, err)
			}
			must(t, s.Close())
		}
	}

	const least = defaultConnections + spareConnections
	for _, tc := range []struct{ pool, conns, want int }{
		{0, 0, defaultWakeupConns}, {0, 3, 3}, {0, -1, 0},
		{least, 0, 0}, {least, -1, 0}, {least, 1, -1},
		{least + 1, 0, 1}, {least + 1, 1, 1}, {least + 1, 2, -1},
		{least + 2, 0, 2}, {least + 100, 0, defaultWakeupConns}, {least + 5, 5, 5},
	} {
		pool, err := sql.Open("mysql", "u@tcp(x)/d")
		must(t, err)
		pool.SetMaxOpenConns(tc.pool)
		s, err := New(pool, Options{WakeupConns: tc.conns})
		switch {
		case tc.want >= 0 && err != nil:
			t.Errorf("%d of a pool of %d: %v", tc.conns, tc.pool, err)
		case tc.want >= 0:
			if got := sessions(s); got != tc.want {
				t.Errorf("%d of a pool of %d: %d sessions, want %d", tc.conns, tc.pool, got, tc.want)
			}
			must(t, s.Close())
		case !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), fmt.Sprintf("allows %d ", tc.pool)) || !strings.Contains(err.Error(), fmt.Sprintf("(%d)", least+tc.conns)):
			t.Errorf("%d of a pool of %d: %v: does not name both numbers", tc.conns, tc.pool, err)
		}
		must(t, pool.Close())
	}
}

// TestForUpdateOnABoundedPool: all that the pool has room for is for keys.
func TestForUpdateOnABoundedPool(t *testing.T) {
	pool, err := sql.Open("mysql", "u@tcp(x)/d")
	must(t, err)
	defer pool.Close()
	pool.SetMaxOpenConns(defaultConnections + spareConnections + 4)
	s, err := New(pool, Options{Strategy: SelectForUpdate, WakeupConns: 3})
	must(t, err)
	if s.locks != nil || s.HoldLimit() != 4 {
		t.Errorf("named locks: %v, %d holds, want none and 4", s.locks != nil, s.HoldLimit())
	}
	must(t, s.Close())
}
