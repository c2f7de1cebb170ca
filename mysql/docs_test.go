package mysqllock

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/docpage"
	"github.com/rowlock/rowlock/internal/testserver"
	"github.com/rowlock/rowlock/mysql/internal/conn"
)

const (
	strategiesPage = "../docs/strategies.md"
	operationsPage = "../docs/operations.md"
)

// TestDocsStatements: the statements in docs/strategies.md are those that the Store sends, and all that it sends in the
// steps of the page. Only what differs from run to run is made the same.
func TestDocsStatements(t *testing.T) {
	blocks := docpage.Blocks(t, strategiesPage, "sent")
	onPage := make(map[string][]string) // by the name of the block
	var all []string
	for _, b := range blocks {
		for _, s := range strings.Split(b.Text, ";\n") {
			if s = squeeze(s); s != "" {
				onPage[b.Name] = append(onPage[b.Name], s)
				all = append(all, s)
			}
		}
	}
	for _, kind := range testserver.Some(t, testserver.MySQL, testserver.MariaDB) {
		for _, strategy := range []Strategy{VersionColumn, UniqueInsert, SelectForUpdate} {
			t.Run(kind+"/"+strategy.String(), func(t *testing.T) {
				t.Parallel()
				sent := tell(t, newLab(t, kind, strategy))
				for name, statements := range onPage {
					step, ours := strings.CutPrefix(name, strategy.String()+" ")
					if step == "connection" && !ours {
						ours = true
					}
					for _, s := range statements {
						if ours && !slices.ContainsFunc(sent[step], func(one string) bool { return squeeze(one) == s }) {
							t.Errorf("block %q: not sent: %s\nsent:\n%s", name, s, strings.Join(sent[step], ";\n"))
						}
					}
				}
				for step, statements := range sent {
					for _, s := range statements {
						// The others share what is not on the page with VersionColumn.
						shared := strings.NewReplacer("rowlock_unique`", "rowlock_version`", "rowlock_session`", "rowlock_version`",
							"rowlock_share_unique`", "rowlock_share`", "rowlock_share_session`", "rowlock_share`").Replace(s)
						if strategy == SelectForUpdate && slices.ContainsFunc(all, func(one string) bool { return noLine(one) == squeeze(shared) }) {
							continue
						}
						if !slices.Contains(all, squeeze(s)) && !slices.Contains(all, squeeze(shared)) && !strings.HasPrefix(s, "KILL QUERY") && !strings.Contains(strings.ToLower(s), "information_schema.processlist") {
							t.Errorf("step %q sends what is not on the page:\n%s", step, s)
						}
					}
				}
			})
		}
	}
}

// noLine is a statement as it is where the keys have no lines.
func noLine(s string) string {
	return strings.NewReplacer("ANDv.line=''", "ANDv.gateISNULL", "ANDline=''LOCK", "ANDgateISNULLLOCK", "line=''AND", "", ",MAX(v.line),TIMESTAMPDIFF(MICROSECOND,'1970-01-01',UTC_TIMESTAMP(6))", "", ",line", ",wanted").Replace(s)
}

// squeeze takes all white space out: the page breaks its lines where it likes.
func squeeze(s string) string {
	return strings.TrimSuffix(strings.Join(strings.Fields(s), ""), ";")
}

// operator runs the commands of docs/operations.md on a connection of its own.
type operator struct {
	t    *testing.T
	conn *sql.Conn
}

func newOperator(t *testing.T, l *lab) operator {
	t.Helper()
	conn, err := l.db.Conn(t.Context())
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	o := operator{t, conn}
	o.run("patience")
	return o
}

// run runs a block and returns the rows of its last statement, by the names of their columns.
func (o operator) run(name string, replace ...string) []map[string]string {
	o.t.Helper()
	rows, err := o.try(name, replace...)
	if err != nil {
		o.t.Fatalf("block %q: %v", name, err)
	}
	return rows
}

func (o operator) try(name string, replace ...string) (found []map[string]string, err error) {
	o.t.Helper()
	for _, s := range strings.Split(docpage.One(o.t, operationsPage, "night", name), ";\n") {
		if s = strings.TrimSpace(strings.NewReplacer(replace...).Replace(s)); s == "" {
			continue
		}
		rows, err := o.conn.QueryContext(context.Background(), s)
		if err != nil {
			return nil, err
		}
		columns, err := rows.Columns()
		must(o.t, err)
		found = nil
		for rows.Next() {
			values, into := make([]sql.NullString, len(columns)), make([]any, len(columns))
			for i := range values {
				into[i] = &values[i]
			}
			must(o.t, rows.Scan(into...))
			row := make(map[string]string)
			for i, c := range columns {
				row[c] = values[i].String
			}
			found = append(found, row)
		}
		if err := rows.Err(); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// TestDocsNight: what docs/operations.md tells to do about a stuck lock does what it says: it shows who has the key, frees
// it, the holder learns the reason and the token rises.
func TestDocsNight(t *testing.T) {
	t.Parallel()
	for _, kind := range testserver.Some(t, testserver.MySQL, testserver.MariaDB) {
		for _, strategy := range []Strategy{VersionColumn, UniqueInsert, SelectForUpdate} {
			t.Run(kind+"/"+strategy.String(), func(t *testing.T) {
				t.Parallel()
				l := newLab(t, kind, strategy)
				l.store()
				op := newOperator(t, l)
				open := func(owner string) (*Store, *rowlock.Client) {
					s := openFor(t, l.dsn(), strategy)
					c, err := rowlock.New(s, rowlock.Options{TTL: 15 * time.Second, Owner: owner, ReapInterval: -1})
					must(t, err)
					t.Cleanup(func() { must(t, c.Close(patient(t))) })
					return s, c
				}
				store, holder := open("web-1:4711")
				_, next := open("web-2:4712")
				lease, err := holder.Acquire(patient(t), "report")
				must(t, err)
				hold, err := rowlock.BeginGuard(lease, store)
				must(t, err)
				free := func() bool {
					info, err := next.Inspect(patient(t), "report")
					must(t, err)
					return !info.Held
				}
				if free() {
					t.Fatal("a held key looks free")
				}
				who := op.run(strategy.String() + " who")
				if len(who) != 1 || who[0]["name"] != "report" || who[0]["owner"] != "web-1:4711" || who[0]["token"] == "" || who[0]["hold"] != hold.ID.String() {
					t.Fatalf("who holds it: %v", who)
				}
				if strategy == SelectForUpdate && (who[0]["conn_id"] == "" || who[0]["USER"] != l.config.User || len(op.run("for-update locked")) != 0) {
					t.Errorf("the session that holds it: %v", who)
				}
				op.run(strategy.String() + " free")
				if strategy != SelectForUpdate && !free() {
					t.Error("the key is not free at once")
				}
				select {
				case <-lease.Done():
				case <-time.After(testserver.Patience(t)):
					t.Fatal("the holder did not learn of it")
				}
				var lost *rowlock.LostError
				if err := lease.Err(); !errors.As(err, &lost) || lost.Reason != rowlock.ReasonForced {
					t.Errorf("the holder learns %v, want the reason forced", err)
				}
				again, err := next.Acquire(patient(t), "report")
				must(t, err)
				if again.Token() < lease.Token()+driver.TokenRange {
					t.Errorf("token %d after %d", again.Token(), lease.Token())
				}
			})
		}
		t.Run(kind+"/silent session", func(t *testing.T) {
			t.Parallel()
			l := newLab(t, kind, SelectForUpdate)
			c := client{t: t, Store: l.store()}
			op := newOperator(t, l)
			h := c.granted("report", 5*time.Minute)
			who := op.run("for-update who")
			op.run("for-update free")
			if len(op.run("for-update locked")) != 0 {
				t.Fatal("the row of a silent session is free")
			}
			op.run("for-update kill", "4711", who[0]["conn_id"])
			eventually(t, "the row is free after KILL", func() bool {
				rows := op.run("for-update locked")
				return len(rows) == 1 && rows[0]["free_key"] == "report"
			})
			c.wants("renewal after KILL", c.renew(h)[0].Status, driver.Forced)
		})
		t.Run(kind+"/transaction in the way", func(t *testing.T) {
			t.Parallel()
			l := newLab(t, kind, VersionColumn)
			c := client{t: t, Store: l.store()}
			op := newOperator(t, l)
			h := c.granted("report", 5*time.Minute)
			tx, err := l.db.Begin()
			must(t, err)
			defer func() { _ = tx.Rollback() }()
			var id string
			must(t, tx.QueryRow("SELECT CONNECTION_ID() FROM rowlock_version FORCE INDEX (guard) WHERE token=? AND name='report' LOCK IN SHARE MODE", h.Token).Scan(&id))
			if _, err := op.try("version free"); conn.Number(err) != conn.ErLockWait {
				t.Fatalf("freed behind an open transaction: %v", err)
			}
			if !slices.ContainsFunc(op.run("transactions"), func(row map[string]string) bool { return row["conn_id"] == id }) {
				t.Error("the open transaction is not shown")
			}
			op.run("for-update kill", "4711", id)
			op.run("version free")
			if c.inspect("report").Held {
				t.Error("the key is not free")
			}
		})
	}
}

// TestDocsGrants: the privileges in docs/operations.md are enough for everything but Migrate.
func TestDocsGrants(t *testing.T) {
	for _, kind := range testserver.Some(t, testserver.MySQL, testserver.MariaDB) {
		for _, strategy := range []Strategy{VersionColumn, UniqueInsert, SelectForUpdate} {
			t.Run(kind+"/"+strategy.String(), func(t *testing.T) {
				t.Parallel()
				l := newLab(t, kind, strategy)
				l.store()
				user := "u" + strings.ToLower(rand.Text()[:12])
				exec(t, l.db, "CREATE USER "+user+"@'%' IDENTIFIED BY 'pw'")
				t.Cleanup(func() { _, _ = l.db.Exec("DROP USER " + user + "@'%'") })
				for line := range strings.Lines(docpage.One(t, operationsPage, "setup", "mysql grants")) {
					grant, _, _ := strings.Cut(line, ";")
					exec(t, l.db, strings.NewReplacer("app.", l.config.DBName+".", "'app'", user).Replace(grant))
				}
				config := l.config.Clone()
				config.User, config.Passwd = user, "pw"
				s := openFor(t, config.FormatDSN(), strategy)
				c := client{t: t, Store: s}
				must(t, s.Check(patient(t)))
				h := c.granted("report", time.Minute)
				c.wants("renew", c.renew(h)[0].Status, driver.Alive)
				c.inspect("report")
				if _, err := s.List(patient(t), "", "", 10); err != nil {
					t.Error(err)
				}
				c.wants("release", c.release(h)[0].Status, driver.Released)
				if _, err := s.ForceRelease(patient(t), "report"); err != nil {
					t.Error(err)
				}
				if _, err := s.Reap(patient(t), 24*time.Hour); err != nil {
					t.Error(err)
				}
			})
		}
	}
}
