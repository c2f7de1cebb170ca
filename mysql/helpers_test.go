package mysqllock

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jmoiron/sqlx"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/testserver"
	"github.com/rowlock/rowlock/mysql/internal/conn"
	"github.com/rowlock/rowlock/mysql/internal/row"
	"github.com/rowlock/rowlock/mysql/internal/session"
)

// lab is a database of a test's own on a shared or own server.
type lab struct {
	t        testing.TB
	kind     string
	config   *mysql.Config
	db       *sql.DB // for the test's own statements
	strategy Strategy

	wakeups   int // WakeupConns of its stores; 0: the default
	keepAfter int // of its stores; 0, as in most tests: a statement on one key is prepared at once
}

func newLab(t testing.TB, kind string, strategy Strategy) *lab {
	t.Helper()
	return newLabAt(t, kind, testserver.DSN(t, kind), strategy)
}

func newLabAt(t testing.TB, kind, dsn string, strategy Strategy) *lab {
	t.Helper()
	config, err := mysql.ParseDSN(dsn)
	must(t, err)
	config.Logger = &mysql.NopLogger{}
	l := &lab{t: t, kind: kind, config: config, strategy: strategy}
	name := "t_" + strings.ToLower(rand.Text()[:12])
	admin := l.open(config)
	exec(t, admin, "CREATE DATABASE "+name)
	config.DBName = name
	l.db = l.open(config)
	t.Cleanup(func() { _, _ = l.db.Exec("DROP DATABASE " + name) })
	return l
}

func (l *lab) open(config *mysql.Config) *sql.DB {
	l.t.Helper()
	connector, err := mysql.NewConnector(config.Clone())
	must(l.t, err)
	db := sql.OpenDB(connector)
	l.t.Cleanup(func() { _ = db.Close() })
	return db
}

// dsn is the address of the lab's database, with more parameters as in a URL.
func (l *lab) dsn(parameters ...string) string {
	dsn := l.config.FormatDSN()
	for _, p := range parameters {
		if strings.Contains(dsn, "?") {
			dsn += "&" + p
		} else {
			dsn += "?" + p
		}
	}
	return dsn
}

// bare is a store without tables.
func (l *lab) bare(parameters ...string) *Store {
	l.t.Helper()
	s, err := Open(l.dsn(parameters...), l.options())
	must(l.t, err)
	s.db.KeepAfter = l.keepAfter
	l.t.Cleanup(func() { _ = s.Close() })
	return s
}

// setup is how another process opens the lab's store: strategy, WakeupConns and DSN.
func (l *lab) setup() string {
	return fmt.Sprintf("%s+%d %s", l.strategy, l.wakeups, l.dsn())
}

func (l *lab) options() Options { return Options{Strategy: l.strategy, WakeupConns: l.wakeups} }

func (l *lab) store(parameters ...string) *Store {
	l.t.Helper()
	s := l.bare(parameters...)
	must(l.t, s.Migrate(patient(l.t)))
	return s
}

// table is the lease table of the lab's strategy.
func (l *lab) table() string {
	if l.strategy == SelectForUpdate {
		return "rowlock_session"
	}
	return "rowlock_" + l.strategy.String()
}

// age moves the times of a key's row into the past.
func (l *lab) age(key string, d time.Duration) {
	l.t.Helper()
	exec(l.t, l.db, fmt.Sprintf("UPDATE %s SET acquired_at=acquired_at-INTERVAL %[2]d MICROSECOND, expires_at=expires_at-INTERVAL %[2]d MICROSECOND, released_at=released_at-INTERVAL %[2]d MICROSECOND WHERE name=x'%[3]x'",
		l.table(), d.Microseconds(), key))
}

// guard opens a transaction that guards the key as its row stands, until the
// returned function ends it.
func (l *lab) guard(key string) (end func()) {
	l.t.Helper()
	end, err := l.tryGuard(key)
	must(l.t, err)
	return end
}

// tryGuard is guard; sql.ErrNoRows: the key has no row.
func (l *lab) tryGuard(key string) (end func(), err error) {
	l.t.Helper()
	tx, err := l.db.Begin()
	must(l.t, err)
	l.t.Cleanup(func() { _ = tx.Rollback() })
	var token uint64
	var hold string
	if err := l.db.QueryRow(fmt.Sprintf("SELECT token,HEX(hold) FROM %s WHERE name=x'%x'", l.table(), key)).Scan(&token, &hold); err != nil {
		return nil, err
	}
	which := ""
	if l.strategy == UniqueInsert { // two holds can have one token there, and part of the index would lock a gap
		which = " AND hold=x'" + hold + "'"
	}
	err = tx.QueryRow(fmt.Sprintf("SELECT token FROM %s FORCE INDEX (guard) WHERE token=%d AND name=x'%x'%s LOCK IN SHARE MODE", l.table(), token, key, which)).Scan(&token)
	if err != nil {
		_ = tx.Rollback() // of a row that is gone it has locked the gap, into which the caller may write the row again
		return nil, err
	}
	return func() { l.t.Helper(); must(l.t, tx.Rollback()) }, nil
}

// each runs f for both strategies that lock by a row, on both servers.
func each(t *testing.T, f func(t *testing.T, l *lab)) {
	t.Helper()
	onServers(t, f, VersionColumn, UniqueInsert)
}

// everywhere runs f for each strategy on both servers.
func everywhere(t *testing.T, f func(t *testing.T, l *lab)) {
	t.Helper()
	onServers(t, f, VersionColumn, UniqueInsert, SelectForUpdate)
}

// onBoth runs f for SelectForUpdate on both servers.
func onBoth(t *testing.T, f func(t *testing.T, l *lab)) {
	t.Helper()
	onServers(t, f, SelectForUpdate)
}

// onServers runs f for the strategies on both servers, in the short tier for one of these pairs.
func onServers(t *testing.T, f func(t *testing.T, l *lab), strategies ...Strategy) {
	t.Helper()
	type pair struct {
		kind     string
		strategy Strategy
	}
	var pairs []pair
	for _, kind := range []string{testserver.MySQL, testserver.MariaDB} {
		for _, strategy := range strategies {
			pairs = append(pairs, pair{kind, strategy})
		}
	}
	for _, p := range testserver.Some(t, pairs...) {
		t.Run(p.kind+"/"+p.strategy.String(), func(t *testing.T) {
			t.Parallel()
			f(t, newLab(t, p.kind, p.strategy))
		})
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func exec(t testing.TB, db *sql.DB, text string) {
	t.Helper()
	if _, err := db.Exec(text); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}

func within(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// patient is a context for what must come.
func patient(t testing.TB) context.Context { return within(t, testserver.Patience(t)) }

func newID() (id driver.HoldID) {
	_, _ = rand.Read(id[:])
	return id
}

// ownClient is the number of the client in a test's requests.
const ownClient = 4711

func request(key string, ttl time.Duration) driver.Request {
	return driver.Request{Key: key, ID: newID(), Owner: "test:1", TTL: ttl, Client: ownClient}
}

// client makes the calls of a test; their errors end it.
type client struct {
	t testing.TB
	*Store
	foundRows bool // its DSN has clientFoundRows
}

func (c client) acquire(reqs ...driver.Request) []driver.Result {
	c.t.Helper()
	results, err := c.Acquire(patient(c.t), reqs)
	must(c.t, err)
	for i, r := range results {
		if r.Status == driver.Unknown {
			c.t.Fatalf("acquire %q: unknown: %v", reqs[i].Key, r.Err)
		}
	}
	return results
}

func (c client) renew(holds ...driver.Hold) []driver.Result {
	c.t.Helper()
	results, err := c.Renew(patient(c.t), holds)
	must(c.t, err)
	return results
}

func (c client) release(holds ...driver.Hold) []driver.Result {
	c.t.Helper()
	results, err := c.Release(patient(c.t), holds)
	must(c.t, err)
	return results
}

// alive renews a hold that lives until the answer says so: of a server that is slow
// nothing is known.
func (c client) alive(what string, h driver.Hold) driver.Result {
	c.t.Helper()
	var r driver.Result
	eventually(c.t, what, func() bool {
		r = c.renew(h)[0]
		return r.Status != driver.Unknown
	})
	c.wants(what, r.Status, driver.Alive)
	return r
}

func (c client) inspect(key string) driver.Info {
	c.t.Helper()
	infos, err := c.Inspect(patient(c.t), []string{key})
	must(c.t, err)
	return infos[0]
}

// granted acquires a key that must be free.
func (c client) granted(key string, ttl time.Duration) driver.Hold {
	c.t.Helper()
	return c.grant(request(key, ttl))
}

func (c client) grant(q driver.Request) driver.Hold {
	c.t.Helper()
	r := c.acquire(q)[0]
	if r.Status != driver.Granted {
		c.t.Fatalf("acquire %q: %v (left %v), want granted", q.Key, r.Status, r.Left)
	}
	if r.Token < row.GrantedFrom || r.Stored > r.Token {
		c.t.Fatalf("acquire %q: token %d, stored %d", q.Key, r.Token, r.Stored)
	}
	return driver.Hold{Key: q.Key, ID: q.ID, Token: r.Token, Stored: r.Stored, TTL: q.TTL, Keep: q.Keep, Guarded: q.Guarded, Mode: q.Mode, Slot: r.Slot, Phase: r.Phase}
}

// reader and slotOf are requests of the other modes.
func reader(key string, ttl time.Duration) driver.Request {
	q := request(key, ttl)
	q.Mode = driver.Shared
	return q
}

func slotOf(key string, n int, ttl time.Duration) driver.Request {
	q := request(key, ttl)
	q.Mode, q.Slots, q.Slot = driver.Slot, n, -1
	return q
}

// waiting makes an exclusive request one of a caller that waits.
func waiting(q driver.Request) driver.Request {
	q.Wants, q.GateTime = true, time.Minute
	return q
}

// waits makes a request one of a caller that waits, as the strategy has it: it stands in the line, or leaves a hint and a gate.
func (l *lab) waits(q driver.Request) driver.Request {
	if l.strategy == SelectForUpdate {
		return waiting(q)
	}
	return standingFor(q)
}

// keepsOut reports whether a request that waits keeps readers and slots out.
func keepsOut(r driver.Result) bool { return r.Gated || r.Place > 0 }

// nobodyWaits takes away what waiting requests have left in the rows of the keys.
func (l *lab) nobodyWaits() {
	l.t.Helper()
	if l.strategy == SelectForUpdate {
		exec(l.t, l.db, "UPDATE "+l.table()+" SET gate=NULL")
	} else {
		exec(l.t, l.db, "UPDATE "+l.table()+" SET line=''")
	}
}

// shares is the table of readers and slots of the lab's strategy.
func (l *lab) shares() string {
	switch l.strategy {
	case UniqueInsert:
		return "rowlock_share_unique"
	case SelectForUpdate:
		return "rowlock_share_session"
	}
	return "rowlock_share"
}

// ageShares moves the times of a key's readers and slots into the past.
func (l *lab) ageShares(key string, d time.Duration) {
	l.t.Helper()
	exec(l.t, l.db, fmt.Sprintf("UPDATE %s SET acquired_at=acquired_at-INTERVAL %[2]d MICROSECOND, expires_at=expires_at-INTERVAL %[2]d MICROSECOND, released_at=released_at-INTERVAL %[2]d MICROSECOND WHERE name=x'%[3]x'",
		l.shares(), d.Microseconds(), key))
}

func (c client) wants(what string, got driver.Status, want driver.Status) {
	c.t.Helper()
	if got != want {
		c.t.Fatalf("%s: %v, want %v", what, got, want)
	}
}

// program is one program that uses the lab's database.
type program struct {
	*Store
	*rowlock.Client
}

func (l *lab) program(t testing.TB, o rowlock.Options) program {
	t.Helper()
	return l.programOn(t, l.store(), o)
}

func (l *lab) programOn(t testing.TB, s *Store, o rowlock.Options) program {
	t.Helper()
	if o.TTL == 0 {
		o.TTL = time.Minute
	}
	o.ReapInterval = -1
	c, err := rowlock.New(s, o)
	must(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_ = c.Close(ctx)
	})
	return program{s, c}
}

// Close is the client's; the lab closes the store.
func (p program) Close(ctx context.Context) error { return p.Client.Close(ctx) }

// Inspect is the client's.
func (p program) Inspect(ctx context.Context, key string) (rowlock.Info, error) {
	return p.Client.Inspect(ctx, key)
}

func (p program) lock(t testing.TB, key string, o ...rowlock.Option) *rowlock.Lease {
	t.Helper()
	lease, err := p.Client.Acquire(patient(t), key, o...) // a server ends a silent session after a minute
	must(t, err)
	return lease
}

// shortest is the smallest TTL that a test of the strategy should use.
func (l *lab) shortest() time.Duration {
	if l.strategy == SelectForUpdate {
		return session.MinTTL
	}
	return 200 * time.Millisecond
}

// beginAt begins a transaction; the end of the test rolls it back.
func (l *lab) beginAt(t testing.TB, level sql.IsolationLevel) *sql.Tx {
	t.Helper()
	tx, err := l.db.BeginTx(context.Background(), &sql.TxOptions{Isolation: level})
	must(t, err)
	t.Cleanup(func() { _ = tx.Rollback() })
	return tx
}

// handles are the kinds of transaction that Guard takes, each with its end.
func (l *lab) handles(t testing.TB) map[string]func() (tx Tx, commit func() error) {
	of := func(level sql.IsolationLevel) func() (Tx, func() error) {
		return func() (Tx, func() error) {
			tx := l.beginAt(t, level)
			return tx, tx.Commit
		}
	}
	return map[string]func() (Tx, func() error){
		"REPEATABLE READ":  of(sql.LevelRepeatableRead),
		"READ UNCOMMITTED": of(sql.LevelReadUncommitted),
		"READ COMMITTED":   of(sql.LevelReadCommitted),
		"SERIALIZABLE":     of(sql.LevelSerializable),
		"sqlx": func() (Tx, func() error) {
			tx, err := sqlx.NewDb(l.db, "mysql").Beginx()
			must(t, err)
			t.Cleanup(func() { _ = tx.Rollback() })
			return tx, tx.Commit
		},
		"*sql.Conn": func() (Tx, func() error) {
			c, err := l.db.Conn(context.Background())
			must(t, err)
			t.Cleanup(func() { _ = c.Close() })
			end := func(text string) error { _, err := c.ExecContext(context.Background(), text); return err }
			must(t, end("START TRANSACTION"))
			return c, func() error { return end("COMMIT") }
		},
	}
}

// between is a transaction in which something happens right before the guard's
// locking read.
type between struct {
	*sql.Tx
	happens func()
}

func (b between) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	b.happens()
	return b.Tx.QueryContext(ctx, query, args...)
}

// free asks until the key of a lease that is over can be had but for its guard.
func (l *lab) free(t testing.TB, p program, key string) rowlock.Info {
	t.Helper()
	var info rowlock.Info
	eventually(t, fmt.Sprintf("%q is free but for its guard", key), func() bool {
		var err error
		info, err = p.Inspect(patient(t), key)
		must(t, err)
		return info.Pinned || !info.Held
	})
	return info
}

// A test must hold on a machine that is as busy as can be. So it waits for what must
// come, with a bound that only something wrong reaches; of what must be fast the best
// try counts; and statements are counted where a slow answer adds none.

// eventually asks until the condition holds.
func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(testserver.Patience(t)); !condition(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("still not: %s", what)
		}
	}
}

// inMoreTime repeats what is given little time, each time twice of it, until the answer is as it should be: a busy server may need it.
func inMoreTime(t testing.TB, d time.Duration, call func(context.Context) error, good func(error) bool) (err error) {
	t.Helper()
	for bound := testserver.Patience(t); d < bound; d *= 2 {
		ctx, cancel := context.WithTimeout(t.Context(), d)
		err = call(ctx)
		cancel()
		if good(err) {
			break
		}
	}
	return err
}

// told reports whether a caller whose time was over heard that others have the key.
func told(err error) bool {
	return errors.Is(err, rowlock.ErrHeld) && errors.Is(err, context.DeadlineExceeded)
}

// best repeats what measures something until that is no more than most. A busy machine
// makes some tries slow, something wrong all of them.
func best[N cmp.Ordered](t testing.TB, what string, most N, measure func() N) {
	t.Helper()
	least := measure()
	for tries, end := 1, time.Now().Add(testserver.Patience(t)); least > most && !t.Failed(); tries++ {
		if time.Now().After(end) {
			t.Errorf("%s: %v, the best of %d tries, want at most %v", what, least, tries, most)
			return
		}
		least = min(least, measure())
	}
}

// soon is best for how long a step takes.
func soon(t testing.TB, what string, most time.Duration, step func()) {
	t.Helper()
	best(t, what, most, func() time.Duration {
		start := time.Now()
		step()
		return time.Since(start)
	})
}

// near makes the store forget how slow its server was, so that it ends what waits by
// KILL, and soon: its connections are opened anew.
func (c client) near() {
	c.t.Helper()
	for _, l := range []*conn.Pool{c.db.Acquires, c.db.Renewals, c.db.Releases} {
		l.CloseIdle()
		conn, err := l.Get(patient(c.t))
		must(c.t, err)
		conn.Put()
	}
	c.db.Usual.Store(0)
}

// soon is the same for a step that a KILL ends.
func (c client) soon(what string, most time.Duration, step func()) {
	c.t.Helper()
	best(c.t, what, most, func() time.Duration {
		c.near()
		start := time.Now()
		step()
		return time.Since(start)
	})
}

// calm lets the store open what it opens beside its first use, and makes it wait for
// slow answers: to end a statement, and to look at what it waited for, are statements
// too.
func (c client) calm() {
	c.t.Helper()
	c.inspect("calm")
	c.db.Background.Wait()
	c.db.Usual.Store(math.MaxInt64 / 8)
}

// undisturbed repeats what counts statements until it takes less time than a statement
// must be unanswered to be asked about, which is another statement.
func undisturbed[T any](t testing.TB, count func() T) T {
	for end := time.Now().Add(testserver.Patience(t)); ; {
		start := time.Now()
		n := count()
		if took := time.Since(start); took < conn.SilentFor || time.Now().After(end) {
			return n
		}
	}
}

// handlerCalls is by how much f raises the sum of one's status variables of that name. They are compared and not set
// to 0: FLUSH STATUS does that to the variables of all connections of a MySQL server (8.0 and later), so to those of
// other tests. To look at them reads rows itself.
func handlerCalls(t testing.TB, one *conn.Conn, like string, f func() error) int {
	t.Helper()
	look := func() (sum int) {
		values, err := conn.Query(patient(t), one, 0, "SHOW SESSION STATUS LIKE '"+like+"'", func(rows *sql.Rows) (n int, err error) {
			var name string
			err = rows.Scan(&name, &n)
			return n, err
		})
		must(t, err)
		for _, n := range values {
			sum += n
		}
		return sum
	}
	first, second := look(), look()
	must(t, f())
	return look() - second - (second - first)
}
