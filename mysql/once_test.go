package mysqllock

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rowlock/rowlock"
)

// TestP13_Once: the effects and the mark are there together or not at all; a run
// that has its mark is not run again, by whoever.
func TestP13_Once(t *testing.T) {
	everywhere(t, func(t *testing.T, l *lab) {
		l.notes(t)
		ctx := within(t, time.Minute)
		a, b := l.program(t, rowlock.Options{}), l.program(t, rowlock.Options{})
		lease := a.lock(t, "a")
		mine := errors.New("mine")
		if err := a.Once(ctx, lease, "1", func(ctx context.Context, tx *sql.Tx) error {
			return errors.Join(note(ctx, tx, "1"), mine)
		}); !errors.Is(err, mine) || l.noted(t, "1") != 0 {
			t.Fatalf("P13: fn's error: %v, %d effects", err, l.noted(t, "1"))
		}
		for range 2 {
			err := a.Once(ctx, lease, "1", func(ctx context.Context, tx *sql.Tx) error { return note(ctx, tx, "1") })
			if err != nil && !errors.Is(err, rowlock.ErrAlreadyRan) {
				t.Fatal(err)
			}
			if l.noted(t, "1") != 1 {
				t.Fatalf("P13: %d effects", l.noted(t, "1"))
			}
		}
		must(t, lease.Release(ctx))
		lease = b.lock(t, "a")
		never := func(context.Context, *sql.Tx) error { t.Error("P13: the run was run again"); return nil }
		if err := b.Once(ctx, lease, "1", never); !errors.Is(err, rowlock.ErrAlreadyRan) {
			t.Errorf("P13: another program: %v", err)
		}
		tx := l.beginAt(t, sql.LevelRepeatableRead)
		if err := b.MarkRun(ctx, tx, lease, "1"); !errors.Is(err, rowlock.ErrAlreadyRan) {
			t.Errorf("P13: MarkRun: %v", err)
		}
		// What differs in a byte, or in the key, is another run.
		for _, run := range []string{"1 ", "1\x00", "A", "a", "é", strings.Repeat("x", 255)} {
			must(t, b.Once(ctx, lease, run, func(context.Context, *sql.Tx) error { return nil }))
		}
		must(t, b.Once(ctx, b.lock(t, "A"), "1", func(context.Context, *sql.Tx) error { return nil }))
		// fn's own end of the transaction: the mark tells what became of it.
		err := b.Once(ctx, lease, "committed", func(ctx context.Context, tx *sql.Tx) error {
			return errors.Join(note(ctx, tx, "committed"), tx.Commit())
		})
		if err == nil || errors.Is(err, rowlock.ErrConflict) || errors.Is(err, rowlock.ErrUnknownOutcome) || l.noted(t, "committed") != 1 {
			t.Errorf("P13: fn committed: %v", err)
		}
		err = b.Once(ctx, lease, "rolled back", func(ctx context.Context, tx *sql.Tx) error {
			return errors.Join(note(ctx, tx, "rolled back"), tx.Rollback())
		})
		if !errors.Is(err, rowlock.ErrConflict) || l.noted(t, "rolled back") != 0 {
			t.Errorf("P13: fn rolled back: %v", err)
		}
	})
}

// TestP13_MarkRun: the mark comes with the caller's commit; it is seen whatever
// snapshot the transaction has, and is not written for a lease that was lost.
func TestP13_MarkRun(t *testing.T) {
	everywhere(t, func(t *testing.T, l *lab) {
		ctx := within(t, time.Minute)
		a := l.program(t, rowlock.Options{})
		for name, level := range map[string]sql.IsolationLevel{"RR": sql.LevelRepeatableRead, "RC": sql.LevelReadCommitted, "SERIALIZABLE": sql.LevelSerializable} {
			lease := a.lock(t, name)
			first := l.beginAt(t, level)
			must(t, a.MarkRun(ctx, first, lease, "1"))
			must(t, first.Rollback())
			first = l.beginAt(t, level)
			must(t, a.MarkRun(ctx, first, lease, "1"))
			if err := a.MarkRun(ctx, first, lease, "1"); !errors.Is(err, rowlock.ErrAlreadyRan) {
				t.Errorf("P13, %s: twice in one transaction: %v", name, err)
			}
			// An older snapshot, in which there is no mark.
			old := l.beginAt(t, level)
			var n int
			if level != sql.LevelSerializable { // where a plain read would wait
				must(t, old.QueryRow("SELECT COUNT(*) FROM rowlock_run").Scan(&n))
			}
			second := make(chan error)
			go func() { second <- a.MarkRun(ctx, old, lease, "1") }()
			select {
			case err := <-second:
				t.Errorf("P13, %s: two transactions mark one run at once: %v", name, err)
			case <-time.After(100 * time.Millisecond):
			}
			must(t, first.Commit())
			if err := <-second; !errors.Is(err, rowlock.ErrAlreadyRan) {
				t.Errorf("P13, %s: the second to mark: %v", name, err)
			}
			must(t, old.Rollback())
			// The first rolls back: the second marks.
			first, old = l.beginAt(t, level), l.beginAt(t, level)
			must(t, a.MarkRun(ctx, first, lease, "2"))
			go func() { second <- a.MarkRun(ctx, old, lease, "2") }()
			time.Sleep(50 * time.Millisecond)
			must(t, first.Rollback())
			must(t, <-second)
			must(t, old.Commit())
			must(t, lease.Release(ctx))
		}
	})
}

// TestP13_MarkRunStopsNobody: a transaction that found the mark of a run keeps no
// other run from being marked.
func TestP13_MarkRunStopsNobody(t *testing.T) {
	everywhere(t, func(t *testing.T, l *lab) {
		ctx := within(t, time.Minute)
		a := l.program(t, rowlock.Options{})
		lease, other := a.lock(t, "m"), a.lock(t, "l")
		must(t, a.Once(ctx, lease, "m", func(context.Context, *sql.Tx) error { return nil }))
		tx := l.beginAt(t, sql.LevelRepeatableRead)
		if err := a.MarkRun(ctx, tx, lease, "m"); !errors.Is(err, rowlock.ErrAlreadyRan) {
			t.Fatal(err)
		}
		for _, run := range []string{"a", "l", "ma", "z"} {
			for _, lease := range []*rowlock.Lease{lease, other} {
				start := time.Now()
				must(t, a.Once(ctx, lease, run, func(context.Context, *sql.Tx) error { return nil }))
				if took := time.Since(start); took > time.Second {
					t.Errorf("the run %q of %q waited %v", run, lease.Key(), took)
				}
			}
		}
		must(t, tx.Rollback())
	})
}

// TestP13_LostCommitReply: the answer to the commit does not come. Once finds out
// what became of it; InTx says that it does not know. (One strategy stands for the
// Stores on a pool of the caller's.)
func TestP13_LostCommitReply(t *testing.T) {
	everywhere(t, func(t *testing.T, l *lab) {
		l.notes(t)
		s, proxy := l.cutStore(t, l.strategy != UniqueInsert)
		a := l.programOn(t, s, rowlock.Options{})
		for _, c := range []struct {
			name string
			cut  cut
		}{
			{"done, connection lost", cut{deliver: true}},
			{"not done, connection lost", cut{}},
			{"not done, server not told", cut{stay: true}},
			{"done, silence", cut{deliver: true, hang: true}},
			{"done late, connection lost", cut{deliver: true, late: true, stay: true}},
			{"not done, silence", cut{hang: true, stay: true}},
		} {
			for _, once := range []bool{true, false} {
				name := fmt.Sprint(c.name, " once ", once)
				lease := a.lock(t, name)
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				cut := proxy.onCommit(c.cut)
				if cut.hang { // then only the end of ctx ends the wait
					go func() { <-cut.reached; cancel() }()
				}
				fn := func(ctx context.Context, tx *sql.Tx) error { return note(ctx, tx, name) }
				var err error
				start := time.Now()
				if once {
					err = a.Once(ctx, lease, "1", fn)
				} else {
					err = a.InTx(ctx, lease, fn)
				}
				took := time.Since(start)
				cancel()
				switch {
				case !once && !errors.Is(err, rowlock.ErrUnknownOutcome),
					once && c.cut.deliver && err != nil,
					once && !c.cut.deliver && !errors.Is(err, rowlock.ErrConflict):
					t.Errorf("P13, %s: after %v: %v", name, took, err)
				}
				must(t, lease.Release(t.Context())) // and waits until the session has ended
				must(t, a.lock(t, name).Release(t.Context()))
				want := 0
				if c.cut.deliver {
					want = 1
				}
				if n := l.noted(t, name); n != want {
					t.Errorf("P13, %s: %v and %d effects, want %d", name, err, n, want)
				}
			}
		}
	})
}

// TestP13_Racing: schedulers of several programs try the same runs, and give up and
// come back at random. Each run takes effect once.
func TestP13_Racing(t *testing.T) {
	everywhere(t, func(t *testing.T, l *lab) {
		l.notes(t)
		const programs, runs = 4, 12
		var wg sync.WaitGroup
		for range programs {
			a := l.program(t, rowlock.Options{})
			for range 2 {
				wg.Go(func() { schedule(t, a, runs) })
			}
		}
		wg.Wait()
		for run := range runs {
			if n := l.noted(t, fmt.Sprint("run ", run)); n != 1 {
				t.Errorf("P13: run %d took effect %d times", run, n)
			}
		}
	})
}

// schedule tries the runs in order until each has its mark.
func schedule(t testing.TB, a program, runs int) {
	for run := 0; run < runs; {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		if rand.IntN(4) == 0 {
			cancel()
			ctx, cancel = context.WithTimeout(context.Background(), rand.N(20*time.Millisecond))
		}
		err := rowlock.Do(ctx, a.Client, "job", func(ctx context.Context, lease *rowlock.Lease) error {
			return a.Once(ctx, lease, fmt.Sprint(run), func(ctx context.Context, tx *sql.Tx) error {
				pause(ctx, time.Millisecond)
				return note(ctx, tx, fmt.Sprint("run ", run))
			})
		})
		late := ctx.Err() != nil
		cancel()
		switch {
		case err == nil, errors.Is(err, rowlock.ErrAlreadyRan):
			run++
		case late, errors.Is(err, rowlock.ErrConflict), errors.Is(err, rowlock.ErrUnknownOutcome):
		default:
			t.Errorf("run %d: %v", run, err)
			return
		}
	}
}

func TestReapRuns(t *testing.T) {
	everywhere(t, func(t *testing.T, l *lab) {
		ctx := within(t, time.Minute)
		a := l.program(t, rowlock.Options{})
		if _, err := a.ReapRuns(ctx, time.Minute); !errors.Is(err, rowlock.ErrInvalid) {
			t.Errorf("a grace that is too short: %v", err)
		}
		lease := a.lock(t, "a")
		nothing := func(context.Context, *sql.Tx) error { return nil }
		for _, run := range []string{"old", "young"} {
			must(t, a.Once(ctx, lease, run, nothing))
		}
		exec(t, l.db, "UPDATE rowlock_run SET at=at-INTERVAL 2 HOUR WHERE run='old'")
		rows := make([]string, 600)
		for i := range rows {
			rows[i] = fmt.Sprintf("('b','%d',1,'2020-01-01')", i)
		}
		exec(t, l.db, "INSERT INTO rowlock_run (name,run,token,at) VALUES "+strings.Join(rows, ","))
		for _, want := range []int{500, 101, 0} {
			n, err := a.ReapRuns(ctx, time.Hour)
			must(t, err)
			if n != want {
				t.Errorf("%d marks were removed, want %d", n, want)
			}
		}
		if err := a.Once(ctx, lease, "young", nothing); !errors.Is(err, rowlock.ErrAlreadyRan) {
			t.Errorf("P13: a young mark: %v", err)
		}
		must(t, a.Once(ctx, lease, "old", nothing))
		exec(t, l.db, "DROP TABLE rowlock_run")
		for what, err := range map[string]error{
			"Once":    a.Once(ctx, lease, "1", nothing),
			"MarkRun": a.MarkRun(ctx, l.beginAt(t, sql.LevelDefault), lease, "1"),
			"ReapRuns": func() error {
				_, err := a.ReapRuns(ctx, time.Hour)
				return err
			}(),
		} {
			if !errors.Is(err, rowlock.ErrSchema) {
				t.Errorf("%s without the table: %v", what, err)
			}
		}
	})
}

// TestP14_GuardChangesNoSetting of the caller's transaction or connection.
func TestP14_GuardChangesNoSetting(t *testing.T) {
	everywhere(t, func(t *testing.T, l *lab) {
		ctx := within(t, time.Minute)
		a := l.program(t, rowlock.Options{})
		exec(t, l.db, "CREATE TABLE counted (id BIGINT AUTO_INCREMENT PRIMARY KEY) ENGINE=InnoDB AUTO_INCREMENT=4711")
		c, err := l.db.Conn(ctx)
		must(t, err)
		defer c.Close()
		run := func(text string) {
			t.Helper()
			_, err := c.ExecContext(ctx, text)
			must(t, err)
		}
		settings := func() map[string]string {
			all := make(map[string]string)
			rows, err := c.QueryContext(ctx, "SHOW SESSION VARIABLES")
			must(t, err)
			defer rows.Close()
			for rows.Next() {
				var name, value string
				must(t, rows.Scan(&name, &value))
				switch name {
				case "timestamp", "warning_count", "error_count", "rand_seed1", "rand_seed2", "statement_id", // of each statement
					"gtid_current_pos", "gtid_binlog_pos", "gtid_binlog_state", "gtid_executed": // of the server
				default:
					all[name] = value
				}
			}
			must(t, rows.Err())
			var mine string
			must(t, c.QueryRowContext(ctx, "SELECT CONCAT_WS(',',@mine,LAST_INSERT_ID(),CONNECTION_ID(),DATABASE())").Scan(&mine))
			all["others"] = mine
			return all
		}
		run("SET @mine=42, SESSION autocommit=0, SESSION sql_mode='', SESSION time_zone='+03:00', SESSION wait_timeout=1234, SESSION innodb_lock_wait_timeout=33")
		run("SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE")
		for i, begin := range []string{"START TRANSACTION", "SELECT 1"} { // autocommit is off
			run(begin)
			run("INSERT INTO counted VALUES ()")
			run("SAVEPOINT before_it")
			lease := a.lock(t, begin)
			before := settings()
			must(t, a.Guard(ctx, c, lease))
			must(t, a.MarkRun(ctx, c, lease, "1"))
			for name, value := range settings() {
				if before[name] != value {
					t.Errorf("P14: %s was %q, is %q", name, before[name], value)
				}
			}
			if i == 0 {
				run("ROLLBACK TO SAVEPOINT before_it")
			}
			run("COMMIT")
			must(t, lease.Release(ctx))
		}
		var counted, marks int
		must(t, l.db.QueryRow("SELECT (SELECT COUNT(*) FROM counted),(SELECT COUNT(*) FROM rowlock_run)").Scan(&counted, &marks))
		if counted != 2 || marks != 1 {
			t.Errorf("P14: the transaction wrote %d rows, want 2, and %d marks, want 1", counted, marks)
		}
	})
}
