package mysqllock

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/internal/testserver"
)

// preparedConnector runs statements on each new connection; nil: none.
type preparedConnector struct {
	sqldriver.Connector
	statements []string
}

func (c preparedConnector) Connect(ctx context.Context) (sqldriver.Conn, error) {
	dc, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	for _, s := range c.statements {
		if _, err := dc.(sqldriver.ExecerContext).ExecContext(ctx, s, nil); err != nil {
			return nil, errors.Join(fmt.Errorf("%s: %w", s, err), dc.Close())
		}
	}
	return dc, nil
}

// poolOf is a pool whose connections are all left so.
func (l *lab) poolOf(t testing.TB, statements ...string) *sql.DB {
	t.Helper()
	connector, err := mysql.NewConnector(l.config.Clone())
	must(t, err)
	db := sql.OpenDB(preparedConnector{connector, statements})
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// over is a program on a pool of its own.
func (l *lab) over(t testing.TB, db *sql.DB) program {
	t.Helper()
	s, err := New(db, l.options())
	must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return l.programOn(t, s, rowlock.Options{TTL: 20 * time.Second})
}

// opened is a program whose DSN sets variables.
func (l *lab) opened(t testing.TB, states []sessionState) program {
	t.Helper()
	var parameters []string
	for _, s := range states {
		for _, text := range s.statements {
			name, value, _ := strings.Cut(strings.TrimPrefix(text, "SET SESSION "), "=")
			parameters = append(parameters, name+"="+url.QueryEscape(value))
		}
	}
	s, err := Open(l.dsn(parameters...), l.options())
	must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return l.programOn(t, s, rowlock.Options{TTL: 20 * time.Second})
}

// agree asks of two programs what a lock promises; key is one that nobody had.
func (l *lab) agree(t *testing.T, key string, a, b program) {
	t.Helper()
	ctx := patient(t)
	lock := func(p program, key string, o ...rowlock.Option) *rowlock.Lease {
		t.Helper()
		lease, err := p.Client.Acquire(ctx, key, o...)
		must(t, err)
		return lease
	}
	held := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, rowlock.ErrHeld) {
			t.Fatalf("P1: %s: %v, want ErrHeld", what, err)
		}
	}
	first := lock(a, key)
	_, err := b.TryAcquire(ctx, key)
	held("another program meets the holder", err)
	var rows int
	must(t, l.db.QueryRowContext(ctx, fmt.Sprintf("SELECT COUNT(*) FROM %s WHERE name='%s' AND token>0", l.table(), key)).Scan(&rows))
	if rows != 1 {
		t.Fatalf("P1: others see %d rows of a key that is held", rows)
	}
	tx, err := l.db.BeginTx(ctx, nil)
	must(t, err)
	if err := a.Guard(ctx, tx, first); err != nil {
		t.Errorf("P4: guard: %v", err)
	}
	must(t, tx.Commit())
	listed, err := b.Store.List(ctx, key, "", 10)
	if err != nil || len(listed) != 1 || !listed[0].Held {
		t.Errorf("List: %+v, %v", listed, err)
	}
	must(t, first.Release(ctx))
	second := lock(b, key)
	if second.Token() <= first.Token() {
		t.Errorf("P2: token %d after %d", second.Token(), first.Token())
	}
	if err := first.Err(); !errors.Is(err, rowlock.ErrReleased) {
		t.Errorf("the first lease ended with %v", err)
	}
	must(t, second.Release(ctx))

	reader, other := lock(a, key, rowlock.Shared()), lock(b, key, rowlock.Shared())
	_, err = b.TryAcquire(ctx, key)
	held("a writer meets readers", err)
	must(t, reader.Release(ctx))
	must(t, other.Release(ctx))
	slots := []*rowlock.Lease{lock(a, key+"s", rowlock.Slots(2)), lock(b, key+"s", rowlock.Slots(2))}
	_, err = a.TryAcquire(ctx, key+"s", rowlock.Slots(2))
	held("a third meets two slots", err)
	for _, s := range slots {
		must(t, s.Release(ctx))
	}
	var wants []rowlock.Want
	for i := range 5 {
		wants = append(wants, rowlock.Want{Key: fmt.Sprint(key, "g", i)})
	}
	group, err := a.AcquireAll(ctx, wants)
	must(t, err)
	_, err = b.TryAcquire(ctx, wants[3].Key)
	held("another program meets a group", err)
	must(t, group.Release(ctx))

	exec(t, l.db, fmt.Sprintf("UPDATE %s SET acquired_at='2001-01-01',expires_at='2001-01-01',released_at='2001-01-01',token=2000000000000000000-token DIV 10 WHERE name='%sg1'", l.table(), key))
	if _, err := a.Store.Reap(ctx, 24*time.Hour); err != nil {
		t.Errorf("P10: Reap: %v", err)
	}
}

// TestSessionSettings: whatever the server, the DSN or a program sets for its sessions does not reach the library's
// statements; what cannot be set is refused, by its name.
func TestSessionSettings(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, l *lab) {
		l.store()
		other := l.otherSchema(t)
		clean := l.over(t, l.poolOf(t))
		n := 0
		var together, sets []sessionState // sets: of character sets, in which the others could not be set
		run := func(name string, p func(t *testing.T) program) {
			t.Run(name, func(t *testing.T) {
				n++
				l.agree(t, fmt.Sprint("k", n), p(t), clean)
			})
		}
		for _, s := range statesOn(l, other, append(variables(), states()...)...) {
			if s.name == "another default database" {
				continue // every connection of that pool is so: it is its own
			}
			db := l.poolOf(t, s.statements...)
			if c, err := db.Conn(t.Context()); err != nil {
				t.Logf("this server has no %s: %v", s.name, err)
				continue
			} else {
				must(t, c.Close())
				must(t, db.Close())
			}
			if s.refused != "" {
				t.Run(s.name, func(t *testing.T) {
					_, err := l.over(t, l.poolOf(t, s.statements...)).TryAcquire(patient(t), "refused")
					if err == nil || errors.Is(err, rowlock.ErrHeld) || !strings.Contains(err.Error(), s.refused) {
						t.Errorf("%v, want an error that names %s", err, s.refused)
					}
				})
				continue
			}
			if l.strategy == VersionColumn || s.alone {
				run(s.name, func(t *testing.T) program { return l.over(t, l.poolOf(t, s.statements...)) })
			}
			switch {
			case s.alone:
			case strings.HasPrefix(s.name, "c") && strings.Contains(s.name, "_connection="), strings.HasPrefix(s.name, "character_set"):
				sets = append(sets, s)
			default:
				together = append(together, s)
			}
		}
		together = append(together, sets...)
		// With the other strategies those that do not exclude each other are tried together.
		for i, group := range groupsOf(together) {
			var statements []string
			for _, s := range group {
				statements = append(statements, s.statements...)
			}
			if l.strategy != VersionColumn {
				run(fmt.Sprint("New with group ", i), func(t *testing.T) program { return l.over(t, l.poolOf(t, statements...)) })
			}
		}
		for i, group := range groupsOf(onlyVariables(together)) {
			run(fmt.Sprint("Open with group ", i), func(t *testing.T) program { return l.opened(t, group) })
		}
	})
}

// groupsOf puts states together that are of different variables.
func groupsOf(states []sessionState) (groups [][]sessionState) {
	has := []map[string]bool{}
next:
	for _, s := range states {
		name, _, _ := strings.Cut(s.name, "=")
		if strings.HasPrefix(name, "character_set") || strings.HasPrefix(name, "collation") {
			name = "character set"
		}
		for i := range groups {
			if !has[i][name] {
				has[i][name] = true
				groups[i] = append(groups[i], s)
				continue next
			}
		}
		groups = append(groups, []sessionState{s})
		has = append(has, map[string]bool{name: true})
	}
	return groups
}

// onlyVariables are those that a DSN can set.
func onlyVariables(states []sessionState) (of []sessionState) {
	for _, s := range states {
		name, rest, _ := strings.Cut(s.name, "=")
		if len(s.statements) == 1 && strings.HasPrefix(s.statements[0], "SET SESSION ") && !strings.Contains(rest, "=") && !strings.Contains(name, ",") {
			of = append(of, s)
		}
	}
	return of
}

// TestSecureTimestamp: a server that lets timestamp not be set gives no session another, and is used; where SYSDATE is
// NOW it is set, although the look does not see it.
func TestSecureTimestamp(t *testing.T) {
	for name, args := range map[string][]string{
		"secure": {"--secure-timestamp=YES"}, "sysdate is now": {"--sysdate-is-now"}, "both": {"--secure-timestamp=YES", "--sysdate-is-now"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLabAt(t, testserver.MariaDB, testserver.Start(t, testserver.MariaDB, args...).DSN(), VersionColumn)
			l.store()
			db, clean := l.poolOf(t), l.over(t, l.poolOf(t))
			if name == "sysdate is now" {
				db = l.poolOf(t, "SET timestamp=1000000000")
			}
			l.agree(t, "k", l.over(t, db), clean)
			l.agree(t, "l", clean, l.opened(t, nil))
		})
	}
}
