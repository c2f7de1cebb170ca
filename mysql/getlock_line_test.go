package mysqllock

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mysql/internal/getlock"
)

// TestP23_AReleaseWakesTheNextAlone: of programs that wait with Fair a release wakes the one whose
// turn it is, and keeps the others asleep: so a hold costs few statements, however many wait.
func TestP23_AReleaseWakesTheNextAlone(t *testing.T) {
	each(t, func(t *testing.T, l *lab) {
		const programs, holds, most = 12, 10, 19
		clients, stores := waiters(t, l, programs, 1)
		least := uint64(holds * programs * 1000)
		for try := 0; try < 4 && least > most*programs*holds; try++ { // on a busy machine tickets are renewed more often
			sum := func() (n uint64) {
				for _, s := range stores {
					n += s.Statements()
				}
				return n
			}
			before := sum()
			var wg sync.WaitGroup
			for _, c := range clients {
				wg.Go(func() {
					for range holds {
						lease, err := c.Acquire(within(t, time.Minute), "k", rowlock.Fair())
						if err != nil {
							t.Error(err)
							return
						}
						time.Sleep(5 * time.Millisecond)
						if err := lease.Release(t.Context()); err != nil {
							t.Error(err)
						}
					}
				})
			}
			wg.Wait()
			least = min(least, sum()-before)
			t.Logf("%.1f statements a hold", float64(sum()-before)/(programs*holds))
		}
		if least > most*programs*holds {
			t.Errorf("P23: %d statements for %d holds, want at most %d for one", least, programs*holds, most)
		}
	})
}

// place puts a ticket for "k".
func place(t *testing.T, s *Store) (driver.Ticket, driver.Place) {
	t.Helper()
	ticket := driver.Ticket{Key: "k", ID: newID()}
	places, err := s.PutTickets(t.Context(), []driver.Ticket{ticket})
	must(t, err)
	ticket.Seq = places[0].Seq
	return ticket, places[0]
}

// stay lets all tickets live for as long as the test takes.
func (l *lab) stay(t *testing.T) {
	t.Helper()
	exec(t, l.db, "UPDATE rowlock_wait SET expires_at='2100-01-01'")
}

// queue is how many sessions of this test's database wait for the named lock of a key.
func (l *lab) queue(t *testing.T) (n int) {
	t.Helper()
	must(t, l.db.QueryRow("SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE DB=DATABASE() AND INFO LIKE 'SELECT IS_USED_LOCK(CONCAT(''rowlock:''%'").Scan(&n))
	return n
}

// came waits for a turn.
func came(t *testing.T, turns <-chan driver.Turn) driver.Turn {
	t.Helper()
	select {
	case turn := <-turns:
		return turn
	case <-time.After(patience):
		t.Fatal("the turn does not come")
		return driver.Turn{}
	}
}

// TestTurnsFollowTheLine: a client behind another waits for that one, and not for the key: it
// gets its turn when that one's ticket is removed or its caller has left, and the key is let go of.
func TestTurnsFollowTheLine(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		_, stores := waiters(t, l, 4, 1)
		var tickets []driver.Ticket
		var places []driver.Place
		for _, s := range stores {
			ticket, p := place(t, s)
			tickets, places = append(tickets, ticket), append(places, p)
		}
		for i, p := range places {
			if want := tickets[max(i-1, 0)].Seq; i > 0 && (p.Ahead != i || p.Nearest != want) || i == 0 && p.Nearest != 0 {
				t.Fatalf("ticket %d: %+v, want %d nearest", i, p, want)
			}
		}
		l.stay(t)
		first, err := stores[0].WaitTurn(within(t, 4*patience), tickets[0], places[0])
		must(t, err)
		if first.Waited {
			t.Error("the first of the line waited for its turn")
		}
		ctx, leave := context.WithCancel(t.Context())
		turns := make([]chan driver.Turn, len(stores))
		for i := 1; i < len(stores); i++ {
			turns[i] = make(chan driver.Turn, 1)
			waiting := t.Context()
			if i == 2 {
				waiting = ctx
			}
			go func() {
				turn, err := stores[i].WaitTurn(waiting, tickets[i], places[i])
				switch {
				case err == nil:
					turns[i] <- turn
				case i != 2 || !errors.Is(err, context.Canceled):
					t.Errorf("turn %d: %v", i, err)
				}
			}()
			inLine(t, l, i)
		}
		if n := l.queue(t); n > 0 {
			t.Errorf("%d that are not the first queue for the key", n)
		}
		removed := time.Now()
		must(t, stores[0].RemoveTickets(t.Context(), tickets[:1]))
		eventually(t, "the lock of the ticket is let go of", func() bool {
			var by sql.NullInt64
			must(t, l.db.QueryRow("SELECT IS_USED_LOCK("+getlock.TicketLock("`"+l.table()+"`", "k", tickets[0].Seq)+")").Scan(&by))
			return !by.Valid
		})
		eventually(t, "the second queues for the key", func() bool { return l.queue(t) == 1 })
		inLine(t, l, 3)
		first.End()
		second := came(t, turns[1])
		if slow := time.Since(removed) > driver.TicketTime; !second.First && !slow || !second.Waited {
			t.Errorf("the turn of the second: first %v, waited %v", second.First, second.Waited)
		}
		leave()
		must(t, stores[2].RemoveTickets(t.Context(), tickets[2:3]))
		must(t, stores[1].RemoveTickets(t.Context(), tickets[1:2]))
		eventually(t, "the last queues for the key", func() bool { return l.queue(t) == 1 })
		second.End()
		came(t, turns[3]).End()
		for _, s := range stores {
			eventually(t, "no turn is left", func() bool { return hasTurns(s, 0) && rests(s, 1) })
		}
	})
}

// TestTurnsBehindATicketWithoutASession: who stands behind a client that does not wait for turns
// looks a few times, and queues for the key then.
func TestTurnsBehindATicketWithoutASession(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		_, stores := waiters(t, l, 3, 1)
		holder, err := stores[0].WaitTurn(within(t, 4*patience), driver.Ticket{Key: "k"}, driver.Place{})
		must(t, err)
		place(t, stores[0])
		ticket, at := place(t, stores[1])
		behind, atBehind := place(t, stores[2])
		l.stay(t)
		before := stores[1].Statements()
		got, gotBehind := make(chan driver.Turn, 1), make(chan driver.Turn, 1)
		wait := func(s *Store, ticket driver.Ticket, at driver.Place, got chan driver.Turn) {
			turn, err := s.WaitTurn(within(t, patience), ticket, at)
			if err != nil {
				t.Error(err)
			}
			got <- turn
		}
		go wait(stores[1], ticket, at, got)
		eventually(t, "it queues for the key", func() bool { return l.queue(t) == 1 })
		if n := stores[1].Statements() - before; n > 25 {
			t.Errorf("%d statements until it queued for the key", n)
		}
		go wait(stores[2], behind, atBehind, gotBehind)
		inLine(t, l, 2)
		holder.End()
		turn := came(t, got)
		if turn.First {
			t.Error("a client behind another is the first")
		}
		turn.End() // as it does when its acquire is refused
		came(t, gotBehind).End()
	})
}

// TestForUpdateFollowsTheLine: of programs that wait with Fair only the first stands in the queue
// for the row lock. The others follow each other, and send little meanwhile.
func TestForUpdateFollowsTheLine(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, l *lab) {
		const programs = 5
		clients, stores := waiters(t, l, programs, 1)
		lease, err := clients[0].Acquire(within(t, 4*patience), "k", rowlock.Fair())
		must(t, err)
		var wg sync.WaitGroup
		for i := 1; i < programs; i++ {
			wg.Go(func() {
				got, err := clients[i].Acquire(within(t, time.Minute), "k", rowlock.Fair())
				if err != nil {
					t.Error(err)
					return
				}
				time.Sleep(5 * time.Millisecond)
				if err := got.Release(t.Context()); err != nil {
					t.Error(err)
				}
			})
			inLine(t, l, i-1)
			eventually(t, "it has a ticket", func() bool {
				lines, err := stores[0].Lines(t.Context(), []string{"k"})
				return err == nil && lines[0].Waiting == i
			})
		}
		must(t, lease.Release(t.Context()))
		wg.Wait()
		for _, s := range stores {
			eventually(t, "no lock is left", func() bool { return hasTurns(s, 0) })
		}
	})
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
