package mysqllock

import (
	"context"
	"crypto/rand"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/docpage"
	"github.com/rowlock/rowlock/internal/testserver"
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
	for _, kind := range []string{testserver.MySQL, testserver.MariaDB} {
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
						// UniqueInsert shares what is not on the page with VersionColumn.
						shared := strings.ReplaceAll(s, "rowlock_unique", "rowlock_version")
						if !slices.Contains(all, squeeze(s)) && !slices.Contains(all, squeeze(shared)) && !strings.HasPrefix(s, "KILL QUERY") {
							t.Errorf("step %q sends what is not on the page:\n%s", step, s)
						}
					}
				}
			})
		}
	}
}

// squeeze takes all white space out: the page breaks its lines where it likes.
func squeeze(s string) string {
	return strings.TrimSuffix(strings.Join(strings.Fields(s), ""), ";")
}

var (
	aToken      = regexp.MustCompile(`\b1[0-9]{18}\b`)
	aConnection = regexp.MustCompile(`(KILL [A-Z]+ |conn_id=)[0-9]+`)
)

// same makes the same what differs from run to run, or only in the key.
func same(s string) string {
	if !strings.Contains(s, "x'7265706f7274'") { // report
		s = strings.NewReplacer("x'73796e63'", "x'7265706f7274'", "x'ffeeddccbbaa99887766554433221100'", "x'00112233445566778899aabbccddeeff'").Replace(s)
	}
	s = strings.Replace(s, "AND token=0 AND", "AND token=1838313528534700032 AND", 1)
	s = aToken.ReplaceAllStringFunc(s, func(n string) string {
		if n == "1152921504606846976" {
			return n
		}
		return "1838313528534700032"
	})
	return aConnection.ReplaceAllString(s, "${1}42")
}

// tell is the story of the page: what is sent in each step.
func tell(t *testing.T, l *lab) map[string][]string {
	rec := &recorder{}
	s := l.recorded(rec)
	sent := make(map[string][]string)
	step := func(name string, f func()) {
		t.Helper()
		s.pace.Store(int64(time.Minute)) // a busy machine: nothing is ended by KILL that is only slow
		rec.take()
		f()
		for _, statement := range rec.take() {
			if statement = same(statement); !slices.Contains(sent[name], statement) {
				sent[name] = append(sent[name], statement)
			}
		}
	}
	ctx := within(t, time.Minute)
	step("connection", func() { must(t, s.Check(ctx)) })
	sent["connection"] = sent["connection"][:3] // the rest is Check, which is not on the page
	c := client{t: t, Store: s}

	report := driver.Request{Key: "report", ID: driver.HoldID{0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff}, Owner: "web-1:4711", TTL: 30 * time.Second}
	syncing := report
	syncing.Key, syncing.ID = "sync", driver.HoldID{0xff, 0xee, 0xdd, 0xcc, 0xbb, 0xaa, 0x99, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 0x00}
	hold := func(q driver.Request) driver.Hold {
		return driver.Hold{Key: q.Key, ID: q.ID, TTL: q.TTL, Keep: q.Keep}
	}
	wants := func(results []driver.Result, want driver.Status) {
		t.Helper()
		for _, r := range results {
			c.wants("step", r.Status, want)
		}
	}
	forUpdate, sessions := s.keep.(*forUpdate)
	due := func() { // the lease rows are to be renewed
		if sessions {
			for _, h := range forUpdate.holds {
				h.rowUntil -= h.ttl / 2
			}
		}
	}

	if sessions {
		step("new key", func() { wants(c.acquire(report, syncing), driver.Granted) })
		// All that the sessions needed once.
		sent["session"] = sent["new key"]
		wants(c.release(hold(report), hold(syncing)), driver.Released)
	}
	step("acquire", func() { wants(c.acquire(report), driver.Granted) })
	step("renew", func() { due(); wants(c.renew(hold(report)), driver.Alive) })
	step("renew with MaxHold", func() {
		due()
		h := hold(report)
		h.MaxHold = time.Hour
		wants(c.renew(h), driver.Alive)
	})
	if sessions {
		step("refused", func() {
			other := report
			other.ID = syncing.ID
			wants(c.acquire(other), driver.Held)
		})
	}
	step("inspect", func() { c.inspect("report") })
	step("list", func() {
		_, err := s.List(ctx, "re", "", 100)
		must(t, err)
	})
	step("release", func() { wants(c.release(hold(report)), driver.Released) })

	if !sessions {
		step("bell", func() {
			r, err := s.AcquireWait(ctx, report, func() {})
			must(t, err)
			wants([]driver.Result{r}, driver.Granted)
			wants(c.release(hold(report)), driver.Released)
			eventually(t, "rung", func() bool { return resting(s) == 1 })
		})
	}
	step("several", func() { wants(c.acquire(report, syncing), driver.Granted) })
	step("renew several", func() { due(); wants(c.renew(hold(report), hold(syncing)), driver.Alive) })
	step("release several", func() { wants(c.release(hold(report), hold(syncing)), driver.Released) })

	keep := report
	keep.Keep = 10 * time.Minute
	withMinHold := func() { wants(c.acquire(keep), driver.Granted) }
	if sessions {
		step("acquire with MinHold", withMinHold)
	} else { // differs in the time only
		withMinHold()
	}
	step("undo", func() {
		h := hold(keep)
		h.Undo = true
		wants(c.release(h), driver.Released)
	})
	_, err := s.ForceRelease(ctx, "report")
	must(t, err)
	wants(c.acquire(keep), driver.Granted)
	step("release with MinHold", func() { wants(c.release(hold(keep)), driver.Released) })
	_, err = s.ForceRelease(ctx, "report")
	must(t, err)

	// A guarded transaction of an old holder is open.
	wants(c.acquire(report), driver.Granted)
	end := l.guard("report")
	if sessions {
		wants(c.release(hold(report)), driver.Released)
	} else {
		l.age("report", time.Hour)
	}
	step("pinned", func() {
		q := report
		q.ID, q.Pinned = syncing.ID, true
		wants(c.acquire(q), driver.Pinned)
	})
	end()
	_, _ = s.Release(ctx, []driver.Hold{hold(report)})

	if sessions {
		l.waitForUptime(4) // or nobody dares to KILL
		holder := openFor(t, l.dsn(), l.strategy)
		wants(client{t: t, Store: holder}.acquire(report), driver.Granted)
	} else {
		wants(c.acquire(report), driver.Granted)
	}
	step("force", func() {
		_, err := s.ForceRelease(ctx, "report")
		must(t, err)
	})
	exec(t, l.db, "DELETE FROM "+l.table())
	exec(t, l.db, fmt.Sprintf("INSERT INTO %s (name,hold,owner,token,acquired_at,expires_at,released_at) VALUES ('report',x'01','',1,'2020-01-01','1970-01-02','2020-01-01')", l.table()))
	step("reap", func() {
		n, err := s.Reap(ctx, 24*time.Hour)
		must(t, err)
		if n != 1 {
			t.Fatalf("%d rows reaped", n)
		}
	})
	return sent
}

// recorded is a store whose statements are noted.
func (l *lab) recorded(rec *recorder) *Store {
	l.t.Helper()
	l.store() // makes the tables
	connector, err := mysql.NewConnector(l.config.Clone())
	must(l.t, err)
	db := sql.OpenDB(recordingConnector{connector, rec})
	l.t.Cleanup(func() { _ = db.Close() })
	s, err := New(db, Options{Strategy: l.strategy, Bells: 1})
	must(l.t, err)
	l.t.Cleanup(func() { _ = s.Close() })
	return s
}

func (l *lab) waitForUptime(seconds int) {
	l.t.Helper()
	for {
		var name string
		var up int
		must(l.t, l.db.QueryRow("SHOW GLOBAL STATUS LIKE 'Uptime'").Scan(&name, &up))
		if up >= seconds {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// recorder notes statements.
type recorder struct {
	mu         sync.Mutex
	statements []string
}

func (r *recorder) note(s string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.statements = append(r.statements, s)
}

// take returns what was noted since the last time.
func (r *recorder) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.statements
	r.statements = nil
	return s
}

type recordingConnector struct {
	sqldriver.Connector
	rec *recorder
}

func (c recordingConnector) Connect(ctx context.Context) (sqldriver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &recordingConn{mysqlConn: conn.(mysqlConn), rec: c.rec}, nil
}

// mysqlConn is what the driver's connections can do and the Store uses.
type mysqlConn interface {
	sqldriver.Conn
	sqldriver.ExecerContext
	sqldriver.QueryerContext
	sqldriver.Pinger
	sqldriver.SessionResetter
	sqldriver.Validator
}

type recordingConn struct {
	mysqlConn
	rec *recorder
}

func (c *recordingConn) ExecContext(ctx context.Context, s string, args []sqldriver.NamedValue) (sqldriver.Result, error) {
	c.rec.note(s)
	return c.mysqlConn.ExecContext(ctx, s, args)
}

func (c *recordingConn) QueryContext(ctx context.Context, s string, args []sqldriver.NamedValue) (sqldriver.Rows, error) {
	c.rec.note(s)
	return c.mysqlConn.QueryContext(ctx, s, args)
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
	for _, kind := range []string{testserver.MySQL, testserver.MariaDB} {
		for _, strategy := range []Strategy{VersionColumn, UniqueInsert, SelectForUpdate} {
			t.Run(kind+"/"+strategy.String(), func(t *testing.T) {
				t.Parallel()
				l := newLab(t, kind, strategy)
				l.store()
				op := newOperator(t, l)
				open := func(owner string) (*Store, *rowlock.Client) {
					s := openFor(t, l.dsn(), strategy)
					c, err := rowlock.New(s, rowlock.Options{TTL: 3 * time.Second, Owner: owner, Reap: -1})
					must(t, err)
					t.Cleanup(func() { must(t, c.Close(within(t, time.Minute))) })
					return s, c
				}
				_, holder := open("web-1:4711")
				_, next := open("web-2:4712")
				lease, err := holder.Acquire(within(t, time.Minute), "report")
				must(t, err)
				free := func() bool {
					info, err := next.Inspect(within(t, time.Minute), "report")
					must(t, err)
					return !info.Held
				}
				if free() {
					t.Fatal("a held key looks free")
				}
				who := op.run(strategy.String() + " who")
				if len(who) != 1 || who[0]["name"] != "report" || who[0]["owner"] != "web-1:4711" || who[0]["token"] == "" {
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
				case <-time.After(30 * time.Second):
					t.Fatal("the holder did not learn of it")
				}
				var lost *rowlock.LostError
				if err := lease.Err(); !errors.As(err, &lost) || lost.Reason != rowlock.ReasonForced {
					t.Errorf("the holder learns %v, want the reason forced", err)
				}
				again, err := next.Acquire(within(t, time.Minute), "report")
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
			for end := time.Now().Add(30 * time.Second); ; {
				if rows := op.run("for-update locked"); len(rows) == 1 && rows[0]["free_key"] == "report" {
					break
				}
				if time.Now().After(end) {
					t.Fatal("the row is not free after KILL")
				}
				time.Sleep(20 * time.Millisecond)
			}
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
			if _, err := op.try("version free"); number(err) != erLockWait {
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
	for _, kind := range []string{testserver.MySQL, testserver.MariaDB} {
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
				must(t, s.Check(within(t, time.Minute)))
				h := c.granted("report", time.Minute)
				c.wants("renew", c.renew(h)[0].Status, driver.Alive)
				c.inspect("report")
				if _, err := s.List(within(t, time.Minute), "", "", 10); err != nil {
					t.Error(err)
				}
				c.wants("release", c.release(h)[0].Status, driver.Released)
				if _, err := s.ForceRelease(within(t, time.Minute), "report"); err != nil {
					t.Error(err)
				}
				if _, err := s.Reap(within(t, time.Minute), 24*time.Hour); err != nil {
					t.Error(err)
				}
			})
		}
	}
}
