package mysqllock

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/testserver"
	"github.com/rowlock/rowlock/mysql/internal/conn"
	"github.com/rowlock/rowlock/mysql/internal/row"
	"github.com/rowlock/rowlock/mysql/internal/share"
)

// cycleTrips is how many statements a cycle costs once all are prepared.
func (l *lab) cycleTrips() uint64 {
	if l.strategy == UniqueInsert {
		return 3
	}
	return 2
}

// tripsOf counts the statements of a cycle.
func (c client) tripsOf(key string) uint64 {
	c.t.Helper()
	before := c.Statements()
	h := c.granted(key, time.Minute)
	c.wants("release", c.release(h)[0].Status, driver.Released)
	return c.Statements() - before
}

// prepared are the statements that the connections at rest have prepared.
func (c client) prepared() map[string]bool {
	texts := make(map[string]bool)
	for _, l := range []*conn.Pool{c.db.Acquires, c.db.Renewals, c.db.Releases} {
		for _, conn := range l.Idle() {
			for _, text := range conn.Prepared() {
				texts[text] = true
			}
		}
	}
	return texts
}

// steady is what a cycle of that key costs when nothing disturbs it: the least of some
// cycles.
func (c client) steady(key string) uint64 {
	c.t.Helper()
	c.calm()
	least := c.tripsOf(key)
	for range 10 {
		least = min(least, c.tripsOf(key))
	}
	return least
}

// TestPrepared: the first use sends literals, the second prepares, the third costs
// nothing more. What is prepared is the literal form with its values taken out.
func TestPrepared(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		l.keepAfter = conn.KeepAfter
		n := l.cycleTrips()
		var c client
		got := undisturbed(t, func() (trips [3]uint64) {
			c = client{t: t, Store: l.store()}
			c.calm()
			c.tripsOf("a") // opens connections
			for text := range c.prepared() {
				t.Errorf("prepared at its first use: %s", text)
			}
			for i := range trips {
				trips[i] = c.tripsOf("a")
			}
			return trips
		})
		if want := [3]uint64{2 * n, n, n}; got != want {
			t.Errorf("the cycles after the first are %d statements, want %d", got, want)
		}
		h := c.granted("b", time.Minute)
		for range 3 {
			c.wants("renew", c.renew(h)[0].Status, driver.Alive)
		}
		h.MaxHold, h.TTL = time.Hour, 2*time.Minute
		for range 3 {
			c.wants("renew", c.renew(h)[0].Status, driver.Alive)
			h.TTL += time.Minute
		}
		kept := c.prepared()
		for text := range kept {
			if strings.Contains(text, "x'") {
				t.Errorf("a literal in %s", text)
			}
		}
		if want := int(n) + 2; len(kept) != want { // and two forms of renewal
			t.Errorf("%d statements are prepared, want %d", len(kept), want)
		}
	})
}

// TestPreparedUsesThePrimaryKey: among many rows each statement touches one.
func TestPreparedUsesThePrimaryKey(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		s := l.store()
		c := client{t: t, Store: s}
		var reqs []driver.Request
		for i := range 400 {
			reqs = append(reqs, request(fmt.Sprint("other", i), time.Minute))
		}
		c.acquire(reqs...)
		ctx := patient(t)
		must(t, s.db.Step(ctx, s.db.Acquires, func(one *conn.Conn) error {
			table := s.strategy.(*share.Table).Name
			q := request("other7", time.Minute)
			q.ID = reqs[7].ID
			h := []driver.Hold{{Key: q.Key, ID: q.ID, TTL: time.Hour}}
			for name, f := range map[string]func() error{
				"upsert": func() error { _, err := one.ExecOne(ctx, 0, row.Upsert(table, []driver.Request{q})); return err },
				"fence":  func() error { _, err := one.QueryOne(ctx, row.Fence(table, q.Key, &q.ID)); return err },
				"extend": func() error { _, err := one.ExecOne(ctx, 0, row.Extend(table, h)); return err },
				"end":    func() error { _, err := one.ExecOne(ctx, 0, row.End(table, h, 0)); return err },
				"remove": func() error { _, err := one.ExecOne(ctx, 0, row.Remove(table, h)); return err },
			} {
				must(t, f()) // prepares
				if read := handlerCalls(t, one, "Handler_read_%", f); read > 4 {
					t.Errorf("%s reads %d rows", name, read)
				}
			}
			return nil
		}))
	})
}

// TestPreparedTableChanges: the tables are altered and made anew under prepared
// statements.
func TestPreparedTableChanges(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		s := l.store()
		c := client{t: t, Store: s}
		c.tripsOf("a")
		for _, change := range []string{
			"ALTER TABLE " + l.table() + " ADD COLUMN more INT NULL FIRST",
			"ALTER TABLE " + l.table() + " DROP COLUMN more",
			"RENAME TABLE " + l.table() + " TO away",
			"CREATE TABLE " + l.table() + " LIKE away",
		} {
			exec(t, l.db, change)
			if strings.HasPrefix(change, "RENAME") {
				_, err := s.Acquire(patient(t), []driver.Request{request("a", time.Minute)})
				refused(t, err, driver.ErrSchema, true, "Migrate")
				continue
			}
			if got := c.steady("a"); got != l.cycleTrips() {
				t.Errorf("%s: a cycle is %d statements", change, got)
			}
		}
	})
}

// TestPreparedRefused: a server that lets nothing more be prepared.
func TestPreparedRefused(t *testing.T) {
	t.Parallel()
	for _, kind := range testserver.Some(t, testserver.MySQL, testserver.MariaDB) {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			l := newLabAt(t, kind, testserver.Start(t, kind).DSN(), UniqueInsert)
			exec(t, l.db, "SET GLOBAL max_prepared_stmt_count=0")
			c := client{t: t, Store: l.store()}
			if got := c.steady("a"); got != l.cycleTrips() {
				t.Errorf("a cycle is %d statements", got)
			}
		})
	}
}

// TestPreparedForgotten: something between here and the server does not keep
// prepared statements. The steps go on, and after a while none is prepared.
func TestPreparedForgotten(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		l.store()
		for number := range conn.Forgotten {
			connector, err := mysql.NewConnector(l.config.Clone())
			must(t, err)
			f := &forgetting{Connector: connector, number: number}
			db := sql.OpenDB(f)
			t.Cleanup(func() { _ = db.Close() })
			s, err := New(db, Options{Strategy: l.strategy})
			must(t, err)
			t.Cleanup(func() { _ = s.Close() })
			c := client{t: t, Store: s}
			for range 10 {
				c.tripsOf("a")
			}
			if got := c.steady("a"); got != l.cycleTrips() {
				t.Errorf("%d: a cycle is %d statements", number, got)
			}
			if n, most := f.forgot.Load(), conn.MayForget*f.opened.Load(); n < 2*conn.MayForget || n > most {
				t.Errorf("%d: forgotten %d times, want at most %d", number, n, most)
			}
		}
	})
}

// forgetting makes connections that forget what they prepared.
type forgetting struct {
	sqldriver.Connector
	number uint16
	opened atomic.Int32 // connections
	forgot atomic.Int32
}

func (f *forgetting) Connect(ctx context.Context) (sqldriver.Conn, error) {
	c, err := f.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	f.opened.Add(1)
	return &forgettingConn{c.(conn.DriverConn), f}, nil
}

type forgettingConn struct {
	conn.DriverConn
	f *forgetting
}

func (c *forgettingConn) PrepareContext(ctx context.Context, text string) (sqldriver.Stmt, error) {
	s, err := c.DriverConn.PrepareContext(ctx, text)
	if err != nil {
		return nil, err
	}
	return &forgettingStmt{s.(conn.PreparedStatement), c.f}, nil
}

type forgettingStmt struct {
	conn.PreparedStatement
	f *forgetting
}

func (s *forgettingStmt) ExecContext(context.Context, []sqldriver.NamedValue) (sqldriver.Result, error) {
	s.f.forgot.Add(1)
	return nil, &mysql.MySQLError{Number: s.f.number}
}

func (s *forgettingStmt) QueryContext(context.Context, []sqldriver.NamedValue) (sqldriver.Rows, error) {
	s.f.forgot.Add(1)
	return nil, &mysql.MySQLError{Number: s.f.number}
}
