package mysqllock

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/testserver"
	"github.com/rowlock/rowlock/locktest"
	"github.com/rowlock/rowlock/mysql/internal/conn"
	"github.com/rowlock/rowlock/mysql/internal/row"
)

// Rows that no version of the library writes, as somebody makes them by hand at
// night. Whatever is in them: no panic, no hang, no token that is not above the
// row's, and either the right outcome or an error that names the key and says what
// to do. The other keys of a statement do not suffer.

// handmade are the columns of a row, as SQL.
type handmade map[string]string

// aligned are the columns of a plain row that expired a minute ago.
func aligned() handmade {
	return handmade{
		"hold": "x'0102030405060708090a0b0c0d0e0f10'", "owner": "'somebody:1'", "token": "1700000000000000000",
		"acquired_at": row.Now + "-INTERVAL 2 MINUTE", "expires_at": row.Now + "-INTERVAL 1 MINUTE", "released_at": "NULL",
		"conn_id": "NULL", "kept_until": "NULL", "wanted": "NULL",
	}
}

// corruptions are the values that are tried for each column.
var corruptions = func() map[string][]string {
	dates := []string{
		"'0000-00-00'", "'1000-01-01'", "'1969-12-31 23:59:59.999999'", "'2024-00-00'", "'9999-00-00'", "'9999-12-31 23:59:59.999999'",
		row.Now, row.Now + "+INTERVAL 1 HOUR", row.Now + "+INTERVAL 300 YEAR", row.Now + "-INTERVAL 300 YEAR",
	}
	tokens := []uint64{
		0, 1, 1<<60 - 1, 1 << 60, uint64(driver.MaxToken) - 1024, uint64(driver.MaxToken) - 1023, uint64(driver.MaxToken), uint64(driver.MaxToken) + 1,
		math.MaxInt64 - 1, math.MaxInt64, math.MaxInt64 + 1, math.MaxUint64 - 1024, math.MaxUint64 - 1023, math.MaxUint64,
	}
	a := map[string][]string{
		"hold":        {row.NoHold, "x'ffffffffffffffffffffffffffffffff'"},
		"owner":       {"''", "REPEAT(x'ff',255)", "CONCAT('a', CHAR(0), CHAR(10), CHAR(39), CHAR(27))"},
		"acquired_at": dates, "expires_at": dates, "released_at": dates, "kept_until": dates,
		"conn_id": {"0", "1", "18446744073709551615"},
		"wanted":  {"0", "4711", "2097151", "2097152", "9223372036854775807", "9223372036854775808", "18446744073709551615", "(" + row.NowMillis + "+5000<<21)+4712"},
	}
	for _, t := range tokens {
		a["token"] = append(a["token"], fmt.Sprint(t))
	}
	return a
}()

// corruptLab has the connection that writes corrupt rows, and programs that meet them.
type corruptLab struct {
	*lab
	person *sql.Conn
	p      program
	beside []*rowlock.Lease // held by p throughout
}

var corruptOptions = rowlock.Options{TTL: 20 * time.Second, Handoff: -1}

func newCorruptLab(t *testing.T, l *lab) *corruptLab {
	l.keepAfter = conn.KeepAfter
	a := &corruptLab{lab: l, p: l.program(t, corruptOptions)}
	var err error
	a.person, err = l.db.Conn(context.Background())
	must(t, err)
	t.Cleanup(func() { _ = a.person.Close() })
	_, err = a.person.ExecContext(context.Background(), "SET SESSION sql_mode=''") // takes dates that are none
	must(t, err)
	for _, k := range []string{"aaa", "zzz"} {
		a.beside = append(a.beside, a.p.lock(t, k))
	}
	return a
}

// columns are those of the lab's table.
func (a *corruptLab) columns() []string {
	c := []string{"hold", "owner", "token", "acquired_at", "expires_at", "released_at"}
	if a.strategy == SelectForUpdate {
		c = append(c, "kept_until", "conn_id", "wanted")
	}
	return c
}

// write puts a row there, whatever was there before.
func (a *corruptLab) write(t testing.TB, key string, h handmade) {
	t.Helper()
	values := []string{conn.NewText(0).Key(key).String()}
	for _, c := range a.columns() {
		values = append(values, h[c])
	}
	text := "REPLACE INTO " + a.table() + " (name," + strings.Join(a.columns(), ",") + ") VALUES (" + strings.Join(values, ",") + ")"
	if _, err := a.person.ExecContext(context.Background(), text); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	if a.strategy == SelectForUpdate {
		exec(t, a.db, "INSERT IGNORE INTO rowlock_session_row (name) VALUES ("+conn.NewText(0).Key(key).String()+")")
	}
}

func (a *corruptLab) remove(t testing.TB, keys ...string) {
	t.Helper()
	for _, k := range keys {
		exec(t, a.db, "DELETE FROM "+a.table()+" WHERE name="+conn.NewText(0).Key(k).String())
	}
}

// state is the row's token and whether the key is free by the server's clock.
func (a *corruptLab) state(t testing.TB, key string) (token uint64, free, there bool) {
	t.Helper()
	kept := "1"
	if a.strategy == SelectForUpdate {
		kept = "IFNULL(kept_until<=" + row.Now + ",1)" // expires_at does not decide there
	} else {
		kept = row.Free
	}
	err := a.db.QueryRow("SELECT token,"+kept+" FROM "+a.table()+" WHERE name="+conn.NewText(0).Key(key).String()).Scan(&token, &free)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, true, false
	}
	must(t, err)
	return token, free, true
}

// says: an error names the key, and says what to do unless it is one of those that
// have a meaning of their own.
func says(t testing.TB, what, key string, err error) {
	t.Helper()
	if err == nil {
		return
	}
	if !strings.Contains(err.Error(), fmt.Sprintf("%q", key)) {
		t.Errorf("%s: the error does not name the key %q: %v", what, key, err)
	}
	for _, known := range []error{rowlock.ErrHeld, rowlock.ErrLost, rowlock.ErrReleased} {
		if errors.Is(err, known) {
			return
		}
	}
	if !strings.Contains(err.Error(), "by hand") && !strings.Contains(err.Error(), "MaxHold") {
		t.Errorf("%s: the error does not say what is wrong and what to do: %v", what, err)
	}
}

// visit runs every operation on the key of an corrupt row.
func (a *corruptLab) visit(t *testing.T, key string, row handmade) {
	t.Helper()
	ctx := patient(t)
	p := a.p
	a.write(t, key, row)

	// Looking.
	if info, err := p.Inspect(ctx, key); err != nil {
		t.Errorf("inspect: %v", err)
	} else {
		seemly(t, info, key)
	}
	infos, err := p.Store.List(ctx, key, "", 10)
	if err != nil || len(infos) != 1 {
		t.Errorf("list: %v, %v", infos, err)
	} else {
		seemly(t, infos[0], key)
	}

	// Taking.
	a.try(t, ctx, key, func() (*rowlock.Lease, error) { return p.TryAcquire(ctx, key) })
	a.write(t, key, row)
	// What is given up is answered, and given back, before the row is written again.
	var waiter program
	a.try(t, ctx, key, func() (lease *rowlock.Lease, err error) {
		for wait := 250 * time.Millisecond; ; wait *= 40 {
			waiter = a.programOn(t, p.Store, corruptOptions)
			short, cancel := context.WithTimeout(ctx, wait)
			lease, err = waiter.Client.Acquire(short, key, rowlock.MinHold(time.Millisecond), rowlock.MaxHold(time.Hour))
			cancel()
			bare := errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, rowlock.ErrHeld) && !strings.Contains(err.Error(), "by hand")
			if !bare || wait > time.Second {
				return lease, err
			}
			must(t, waiter.Close(ctx)) // the server has not answered in so short a time
			a.write(t, key, row)
		}
	})
	must(t, waiter.Close(ctx))

	// In one statement with others.
	a.write(t, key, row)
	a.batch(t, ctx, key, row)

	// By force, and reaping.
	a.write(t, key, row)
	before, _, _ := a.state(t, key)
	_, err = p.Store.ForceRelease(ctx, key)
	says(t, "force release", key, err)
	after, free, there := a.state(t, key)
	switch {
	case !there || after < before:
		t.Errorf("force release: token %d after %d, there: %v", after, before, there)
	case err == nil && !free:
		t.Errorf("force release: the key is not free")
	case err == nil && after > math.MaxInt64 && after != before:
		t.Errorf("force release: token %d", after)
	}
	a.write(t, key, row)
	if _, err := p.Store.Reap(ctx, time.Hour); err != nil {
		t.Errorf("reap: %v", err)
	}
	tx, err := a.db.Begin()
	must(t, err)
	if err := p.LockTx(ctx, tx, key); err != nil {
		t.Errorf("LockTx: %v", err)
	}
	must(t, tx.Rollback())
	a.remove(t, key)
}

// seemly: what is shown of a row has nothing that wrapped around.
func seemly(t testing.TB, i rowlock.Info, key string) {
	t.Helper()
	if i.Key != key || i.Token < 0 || i.Left < 0 || i.Held != (i.Left > 0) {
		t.Errorf("shown as %+v", i)
	}
}

// try takes the key and, if it was granted, does with the lease what can be done.
func (a *corruptLab) try(t *testing.T, ctx context.Context, key string, take func() (*rowlock.Lease, error)) {
	t.Helper()
	before, free, _ := a.state(t, key)
	lease, err := take()
	switch {
	case err == nil && !free:
		t.Errorf("P1: granted, token %d, though the row is not free", lease.Token())
	case errors.Is(err, rowlock.ErrHeld) && free:
		t.Errorf("refused, though the row is free: %v", err)
	}
	says(t, "acquire", key, err)
	if err != nil {
		if h := (*rowlock.HeldError)(nil); errors.As(err, &h) && (h.Left < 0 || h.Pinned) {
			t.Errorf("refused: %+v", h)
		}
		return
	}
	if token := lease.Token(); token <= 0 || token > driver.MaxToken || uint64(token) <= before {
		locktest.Breach(t, "P3", "granted token %d after %d", token, before)
	}
	if after, _, _ := a.state(t, key); after > math.MaxInt64 || after < before {
		locktest.Breach(t, "P3", "the row has token %d, before the grant %d", after, before)
	}
	tx, err := a.db.Begin()
	must(t, err)
	if err := a.p.Guard(ctx, tx, lease); err != nil {
		t.Errorf("guard: %v", err)
	}
	must(t, tx.Rollback())
	run := newID().String()
	nothing := func(context.Context, *sql.Tx) error { return nil }
	if err := a.p.InTx(ctx, lease, nothing); err != nil {
		t.Errorf("InTx: %v", err)
	}
	if err := a.p.Once(ctx, lease, run, nothing); err != nil {
		t.Errorf("Once: %v", err)
	}
	if err := a.p.Once(ctx, lease, run, nothing); !errors.Is(err, rowlock.ErrAlreadyRan) {
		t.Errorf("Once again: %v", err)
	}
	if err := lease.Renew(ctx); err != nil {
		t.Errorf("renew: %v", err)
	}
	if err := lease.Release(ctx); err != nil {
		t.Errorf("release: %v", err)
	}
}

// batch sends the key with others, in each kind of statement.
func (a *corruptLab) batch(t *testing.T, ctx context.Context, key string, row handmade) {
	t.Helper()
	ttl := 20 * time.Second
	reqs := []driver.Request{request("a-"+key, ttl), request(key, ttl), request("z-"+key, ttl)}
	reqs[1].Keep, reqs[1].Wants = time.Second, true
	results, err := a.p.Store.Acquire(ctx, reqs)
	if err != nil {
		t.Errorf("P15: acquire of three keys, of which one is corrupt: %v", err)
		return
	}
	holds := make([]driver.Hold, len(reqs))
	for i, r := range results {
		holds[i] = driver.Hold{Key: reqs[i].Key, ID: reqs[i].ID, Token: r.Token, Stored: r.Stored, TTL: ttl, MaxHold: time.Hour, Keep: reqs[i].Keep}
		switch {
		case i != 1 && r.Status != driver.Granted:
			t.Errorf("P15: acquire of a neighbour: %v: %v", r.Status, r.Err)
		case r.Status == driver.Granted && (r.Token <= 0 || r.Token > driver.MaxToken):
			t.Errorf("P3: granted token %d", r.Token)
		case r.Status == driver.Unknown:
			says(t, "acquire in a batch", key, r.Err)
		}
	}
	if results[1].Status != driver.Granted {
		// The hold that the row shows: its owner meets what was done to it.
		holds[1].ID = driver.HoldID{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}
		holds[1].Token = 1_700_000_000_000_000_000
		holds[1].Stored = holds[1].Token
	} else {
		// While it is held, all but the hold is changed by hand.
		changed := []string{}
		for _, c := range a.columns() {
			if c != "hold" {
				changed = append(changed, c+"="+row[c])
			}
		}
		_, err := a.person.ExecContext(ctx, "UPDATE "+a.table()+" SET "+strings.Join(changed, ",")+" WHERE name="+conn.NewText(0).Key(key).String())
		must(t, err)
	}
	for _, step := range []struct {
		name string
		call func(context.Context, []driver.Hold) ([]driver.Result, error)
		good driver.Status
	}{{"renew", a.p.Renew, driver.Alive}, {"release", a.p.Release, driver.Released}} {
		results, err := step.call(ctx, holds)
		if err != nil {
			t.Errorf("P15: %s of three keys, of which one is corrupt: %v", step.name, err)
			continue
		}
		for i, r := range results {
			switch {
			case i != 1 && r.Status != step.good:
				t.Errorf("P15: %s of a neighbour: %v: %v", step.name, r.Status, r.Err)
			case r.Status == driver.Unknown:
				says(t, step.name+" in a batch", key, r.Err)
			case r.Left < 0:
				t.Errorf("%s: left %v", step.name, r.Left)
			}
		}
	}
	holds[1].Undo = true
	if _, err := a.p.Release(ctx, holds[1:2]); err != nil {
		says(t, "undo", key, err)
	}
	a.remove(t, reqs[0].Key, reqs[2].Key)
}

// TestCorruptRows: each column with each value by itself, and many at random.
func TestCorruptRows(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, l *lab) {
		a := newCorruptLab(t, l)
		n := 0
		visit := func(row handmade) {
			n++
			key := fmt.Sprintf("%d\x00'\\", n)
			failed := t.Failed()
			a.visit(t, key, row)
			if t.Failed() && !failed {
				t.Errorf("first failure with the row %v", row)
			}
		}
		columns := a.columns()
		for _, c := range columns {
			for _, v := range corruptions[c] {
				row := aligned()
				row[c] = v
				visit(row)
			}
		}
		random, seed := 20, rand.Uint64()
		if testing.Short() {
			random, seed = 5, 1
		}
		r := rand.New(rand.NewPCG(seed, 0))
		for range random {
			row := aligned()
			for _, c := range columns {
				if values := corruptions[c]; r.IntN(2) == 0 {
					row[c] = values[r.IntN(len(values))]
				}
			}
			visit(row)
		}
		for _, lease := range a.beside {
			if err := lease.Err(); err != nil {
				t.Errorf("P15: a lease of another key: %v", err)
			}
		}
		if t.Failed() {
			t.Logf("seed %d", seed)
		}
	})
}

// TestForceReleaseOfACorruptKeptUntil: kept_until keeps a key although it is no time,
// whatever the rest of the row says of holds. A forced release frees it.
func TestForceReleaseOfACorruptKeptUntil(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, l *lab) {
		a := newCorruptLab(t, l)
		for n, hold := range corruptions["hold"] {
			for m, acquired := range corruptions["acquired_at"] {
				key, row := fmt.Sprint(n, "/", m), aligned()
				row["hold"], row["acquired_at"], row["kept_until"] = hold, acquired, "'9999-00-00'"
				a.write(t, key, row)
				if _, err := a.p.TryAcquire(patient(t), key); err == nil || !strings.Contains(err.Error(), "by hand") {
					t.Errorf("acquire: %v, want what is wrong with the row %v", err, row)
				}
				if _, err := a.p.Store.ForceRelease(patient(t), key); err != nil {
					t.Errorf("force release: %v, with the row %v", err, row)
				}
				lease, err := a.p.TryAcquire(patient(t), key)
				if err != nil {
					t.Errorf("acquire after a forced release: %v, with the row %v", err, row)
					continue
				}
				must(t, lease.Release(patient(t)))
			}
		}
	})
}

// TestCorruptRowHidesNothing: List shows the others too.
func TestCorruptRowHidesNothing(t *testing.T) {
	everywhere(t, func(t *testing.T, l *lab) {
		a := newCorruptLab(t, l)
		row := aligned()
		row["token"], row["expires_at"], row["acquired_at"] = "18446744073709551615", "'0000-00-00'", "'0000-00-00'"
		a.write(t, "m", row)
		infos, err := a.p.Store.List(patient(t), "", "", 10)
		must(t, err)
		var keys []string
		for _, i := range infos {
			keys = append(keys, i.Key)
		}
		if !slices.Equal(keys, []string{"aaa", "m", "zzz"}) {
			t.Errorf("listed: %v", keys)
		}
	})
}

// TestP10_ReapOfTheLongestTime: the longest duration that Go has is more than any
// row is old, so nothing is reaped, and no mark of a run.
func TestP10_ReapOfTheLongestTime(t *testing.T) {
	everywhere(t, func(t *testing.T, l *lab) {
		a := newCorruptLab(t, l)
		ctx := patient(t)
		must(t, a.p.Once(ctx, a.beside[0], "run", func(context.Context, *sql.Tx) error { return nil }))
		for _, d := range []time.Duration{math.MaxInt64, math.MaxInt64 - 998, 150 * 365 * 24 * time.Hour} {
			if n, err := a.p.Store.Reap(ctx, d); err != nil || n > 0 {
				t.Errorf("P10: reap of rows older than %v: %d, %v", d, n, err)
			}
			if n, err := a.p.ReapRuns(ctx, d); err != nil || n > 0 {
				t.Errorf("P13: reap of marks older than %v: %d, %v", d, n, err)
			}
		}
		for _, d := range []time.Duration{0, -1, math.MinInt64} {
			if _, err := a.p.Store.Reap(ctx, d); !errors.Is(err, rowlock.ErrInvalid) {
				t.Errorf("reap of rows older than %v: %v", d, err)
			}
			if _, err := a.p.ReapRuns(ctx, d); !errors.Is(err, rowlock.ErrInvalid) {
				t.Errorf("reap of marks older than %v: %v", d, err)
			}
		}
		for _, lease := range a.beside {
			if err := lease.Renew(ctx); err != nil {
				t.Errorf("P10: %v", err)
			}
		}
	})
}

// TestCorruptRuns: a mark that was changed by hand is a mark.
func TestCorruptRuns(t *testing.T) {
	for _, kind := range testserver.Some(t, testserver.MySQL, testserver.MariaDB) {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			a := newCorruptLab(t, newLab(t, kind, VersionColumn))
			ctx := patient(t)
			for n, token := range []string{"0", "9223372036854775808", "18446744073709551615"} {
				for m, at := range corruptions["acquired_at"] {
					run := fmt.Sprint(n, "\x00'", m)
					_, err := a.person.ExecContext(ctx, "INSERT INTO rowlock_run (name,run,token,at) VALUES ('aaa',"+conn.NewText(0).Key(run).String()+","+token+","+at+")")
					must(t, err)
					err = a.p.Once(ctx, a.beside[0], run, func(context.Context, *sql.Tx) error { t.Error("P13: run again"); return nil })
					if !errors.Is(err, rowlock.ErrAlreadyRan) {
						t.Errorf("once, mark of token %s at %s: %v", token, at, err)
					}
					must(t, a.p.db.Slow(ctx, func(c *conn.Conn) error {
						token, err := a.p.guarded.Marked(ctx, c, "aaa", run)
						if err != nil || token <= 0 {
							t.Errorf("P13: a mark is told as token %d, %v", token, err)
						}
						return nil
					}))
				}
			}
			if _, err := a.p.ReapRuns(ctx, time.Hour); err != nil {
				t.Errorf("reap of marks: %v", err)
			}
		})
	}
}
