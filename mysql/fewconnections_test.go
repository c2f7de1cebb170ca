package mysqllock

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/testserver"
)

// few is a Store with few connections, of a user of its own, by which they are counted.
func few(t testing.TB, l *lab, number int) (s *Store, sessions func() int) {
	t.Helper()
	user := fmt.Sprintf("f%d%s", number, l.config.DBName[2:])
	exec(t, l.db, "CREATE USER "+user+"@'%' IDENTIFIED BY 'pw'")
	t.Cleanup(func() { _, _ = l.db.Exec("DROP USER " + user + "@'%'") })
	exec(t, l.db, "GRANT ALL ON "+l.config.DBName+".* TO "+user+"@'%'")
	config := l.config.Clone()
	config.User, config.Passwd = user, "pw"
	s, err := Open(config.FormatDSN(), Options{Strategy: l.strategy, FewConnections: true})
	must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s, func() int { return len(sessionsOf(t, l, user)) }
}

// atMost counts connections. The server shows one that was closed for a moment longer.
func atMost(t testing.TB, who string, most int, count func() int) {
	t.Helper()
	n := count()
	for end := time.Now().Add(testserver.Patience(t)); n > most && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		n = count()
	}
	if n > most {
		t.Errorf("%s has %d connections, want at most %d", who, n, most)
	}
}

// fewest are the connections of a program that waits, and of one that holds.
func (l *lab) fewest() (waits, holds int) {
	if l.strategy == SelectForUpdate {
		return 2, 2
	}
	return 1, 2
}

// TestFewConnections: with Options.FewConnections a program that waits has one connection and one that holds has two
// (SelectForUpdate: two and two), also while it marks a run; the key is free as soon as it is released, and the next has it.
func TestFewConnections(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, l *lab) {
		ctx := patient(t)
		waits, holds := l.fewest()
		must(t, l.store().Migrate(ctx))
		first, ofFirst := few(t, l, 1)
		second, ofSecond := few(t, l, 2)
		a, b := l.programOn(t, first, rowlock.Options{TTL: 5 * time.Second}), l.programOn(t, second, rowlock.Options{TTL: 5 * time.Second})
		held := a.lock(t, "k")
		must(t, held.Renew(ctx))
		atMost(t, "a holder", holds, ofFirst)
		got := make(chan *rowlock.Lease, 1)
		go func() { got <- b.lock(t, "k") }()
		eventually(t, "the second waits", func() bool { return second.Statements() > 10 && b.Stats().Waiting == 1 })
		atMost(t, "a program that waits", waits, ofSecond)
		must(t, first.Once(ctx, held, "run", func(context.Context, *sql.Tx) error {
			atMost(t, "a holder that marks a run", holds, ofFirst)
			return nil
		}))
		must(t, held.Renew(ctx))
		atMost(t, "a holder after that", holds, ofFirst)
		must(t, held.Release(ctx))
		lease := <-got
		must(t, lease.Renew(ctx))
		atMost(t, "the next holder", holds, ofSecond)
		must(t, lease.Release(ctx))
	})
}

// TestFewConnectionsTransactionAhead: an open guarded transaction keeps a key, and a program with few connections that waits for it
// gets it at its end (P4), though nothing can end its statements at first.
func TestFewConnectionsTransactionAhead(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, l *lab) {
		ctx := patient(t)
		must(t, l.store().Migrate(ctx))
		s, _ := few(t, l, 1)
		c := client{t: t, Store: l.store()}
		h := c.granted("k", l.shortest())
		end := l.guard("k")
		c.release(h)
		p := l.programOn(t, s, rowlock.Options{TTL: time.Minute})
		got := make(chan *rowlock.Lease, 1)
		go func() { got <- p.lock(t, "k") }()
		before := s.Statements()
		eventually(t, "it meets the transaction, again and again", func() bool { return s.Statements() > before+30 })
		select {
		case lease := <-got:
			t.Fatalf("granted with token %d beside the transaction", lease.Token())
		default:
		}
		end()
		lease := <-got
		must(t, lease.Renew(ctx))
		must(t, lease.Release(ctx))
	})
}

// TestFewConnectionsLeastOptions: it says how many connections there are, so no number goes beside it.
func TestFewConnectionsLeastOptions(t *testing.T) {
	for _, o := range []Options{{FewConnections: true, Connections: 8}, {FewConnections: true, WakeupConns: 1}} {
		if _, err := Open("u@tcp(127.0.0.1:1)/d", o); !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// TestFewConnectionsOneDies: with few connections too a lease lives on when all of them die without a word, and a free key can be had.
func TestFewConnectionsOneDies(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		const ttl = 6 * time.Second
		l.store()
		busy := premise(t, l)
		w := l.firewall()
		s, err := Open(l.dsn(), Options{Strategy: l.strategy, FewConnections: true})
		must(t, err)
		t.Cleanup(func() { _ = s.Close() })
		p := l.programOn(t, s, rowlock.Options{TTL: ttl})
		lease := p.lock(t, "held")
		must(t, lease.Renew(patient(t)))
		warm(t, s)
		p26(t, deadIdle(t, w, p, lease, ttl, 2), ttl, busy())
	})
}
