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
	"github.com/rowlock/rowlock/internal/testserver"
	"github.com/rowlock/rowlock/mysql/internal/conn"
	"github.com/rowlock/rowlock/mysql/internal/guarded"
)

// TestP13_Once: the effects and the mark are there together or not at all; a run
// that has its mark is not run again, by whoever.
func TestP13_Once(t *testing.T) {
	everywhere(t, func(t *testing.T, l *lab) {
		l.notes(t)
		ctx := patient(t)
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
		ctx := patient(t)
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
		ctx := patient(t)
		a := l.program(t, rowlock.Options{})
		lease, other := a.lock(t, "m"), a.lock(t, "l")
		must(t, a.Once(ctx, lease, "m", func(context.Context, *sql.Tx) error { return nil }))
		tx := l.beginAt(t, sql.LevelRepeatableRead)
		if err := a.MarkRun(ctx, tx, lease, "m"); !errors.Is(err, rowlock.ErrAlreadyRan) {
			t.Fatal(err)
		}
		for _, run := range []string{"a", "l", "ma", "z"} {
			for _, lease := range []*rowlock.Lease{lease, other} {
				n := 0
				soon(t, fmt.Sprintf("the run %q of %q", run, lease.Key()), time.Second, func() {
					n++
					must(t, a.Once(ctx, lease, run+strings.Repeat(" ", n-1), nothing))
				})
			}
		}
		must(t, tx.Rollback())
	})
}

// TestP13_LostCommitReply: the answer to the commit does not come. Once finds out
// what became of it; InTx says that it does not know. (One strategy stands for the
// Stores on a pool of the caller's.)
func TestP13_LostCommitReply(t *testing.T) {
	t.Parallel()
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
				const tries = 3
				for try := 1; ; try++ {
					name := fmt.Sprint(c.name, " once ", once, " try ", try)
					err := l.loseCommit(t, a, proxy, c.cut, name, once)
					if !once || !errors.Is(err, rowlock.ErrUnknownOutcome) {
						break
					}
					if try == tries {
						t.Errorf("P13, %s: Once did not find out in any of %d tries", name, tries)
						break
					}
				}
			}
		}
	})
}

// loseCommit makes a run whose commit meets the cut, and checks what was said of it. Once
// may say that it does not know where the server did not end the session in time: on a
// busy machine the KILL gets through too late, or the connection for it is younger than
// the session. Asked again it says what became of the run.
func (l *lab) loseCommit(t *testing.T, a program, proxy *cutter, how cut, name string, once bool) error {
	t.Helper()
	lease := a.lock(t, name)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	over := make(chan time.Time, 1) // when ctx ends
	end := func() { cancel(); over <- time.Now() }
	cut := proxy.onCommit(how)
	if cut.hang { // then only the end of ctx ends the wait
		go func() { <-cut.reached; end() }()
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
	answer := err
	if once && errors.Is(err, rowlock.ErrUnknownOutcome) {
		if ctx.Err() == nil || cut.hang && time.Since(<-over) < guarded.CommitGrace {
			t.Errorf("P13, %s: Once gave up too early, after %v: %v", name, took, err)
		}
		t.Logf("%s: after %v: %v", name, took, err)
		answer = l.askAgain(t, a, lease)
	}
	switch {
	case !once && !errors.Is(err, rowlock.ErrUnknownOutcome),
		once && how.deliver && answer != nil,
		once && !how.deliver && !errors.Is(answer, rowlock.ErrConflict):
		t.Errorf("P13, %s: after %v: %v", name, took, answer)
	}
	must(t, lease.Release(t.Context())) // and waits until the session has ended
	must(t, a.lock(t, name).Release(t.Context()))
	want := 0
	if how.deliver {
		want = 1
	}
	if n := l.noted(t, name); n != want {
		t.Errorf("P13, %s: %v and %d effects, want %d", name, err, n, want)
	}
	return err
}

// askAgain calls Once until it knows what became of the run: nil is that it took effect.
func (l *lab) askAgain(t *testing.T, a program, lease *rowlock.Lease) error {
	t.Helper()
	none := fmt.Errorf("%w: nothing took effect", rowlock.ErrConflict)
	ctx := patient(t) // a server ends a silent session after a minute
	for {
		err := a.Once(ctx, lease, "1", func(context.Context, *sql.Tx) error { return none })
		switch {
		case errors.Is(err, rowlock.ErrAlreadyRan):
			return nil
		case errors.Is(err, none):
			return err
		case ctx.Err() != nil:
			t.Fatalf("Once does not find out what became of the run: %v", err)
		}
	}
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
		ctx, cancel := context.WithTimeout(context.Background(), testserver.Patience(t))
		if rand.IntN(4) == 0 {
			cancel()
			ctx, cancel = context.WithTimeout(context.Background(), rand.N(20*time.Millisecond))
		}
		err := rowlock.Do(ctx, a.Client, "job", func(ctx context.Context, lease *rowlock.Lease) error {
			return a.Once(ctx, lease, fmt.Sprint(run), func(ctx context.Context, tx *sql.Tx) error {
				conn.Pause(ctx, time.Millisecond)
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
