package mongolock

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/guards"
	"github.com/rowlock/rowlock/internal/testserver"
	"github.com/rowlock/rowlock/mongo/internal/command"
	"github.com/rowlock/rowlock/mongo/internal/document"
)

// Schedulers race for runs, each with a client of its own: every run has its
// effects once, and one of them only is told that it made them.
func TestP13_RacingSchedulers(t *testing.T) {
	t.Parallel()
	s := shared(t)
	uri := testserver.DSN(t, testserver.Mongo)
	const runs = 8
	var mu sync.Mutex
	made := make(map[int64]int)
	var wg sync.WaitGroup
	for range 4 {
		own := beside(t, s, uri)
		c := locker(t, own, rowlock.Options{})
		wg.Go(func() {
			for run := range int64(runs) {
				err := rowlock.Do(t.Context(), c, "k", func(ctx context.Context, lease *rowlock.Lease) error {
					return own.Once(ctx, lease, fmt.Sprint(run), func(ctx context.Context) error { return effects(ctx, own, run) })
				}, rowlock.Guarded())
				if err == nil {
					mu.Lock()
					made[run]++
					mu.Unlock()
				} else if !errors.Is(err, rowlock.ErrAlreadyRan) {
					t.Errorf("run %d: %v", run, err)
				}
			}
		})
	}
	wg.Wait()
	checkOnce(t, s, runs)
	for run := range int64(runs) {
		if made[run] != 1 {
			t.Errorf("P13: %d were told that they made run %d", made[run], run)
		}
	}
}

// Without a lease between them: two Stores whose leases are of different keys share
// nothing, one key's runs by two transactions at once are stopped by the mark too.
func TestP13_TwoTransactionsOfOneRun(t *testing.T) {
	t.Parallel()
	s := shared(t)
	lease := guarded(t, locker(t, s, rowlock.Options{}), "k")
	first, ctx := begin(t, s)
	must(t, s.MarkRun(ctx, lease, "r"))
	must(t, add(ctx, s, "r"))
	_, second := begin(t, s)
	wants(t, "P13: mark of a run that another transaction has marked", s.MarkRun(second, lease, "r"), rowlock.ErrConflict)
	must(t, first.CommitTransaction(ctx))

	// The transaction that learns that it ran before goes on.
	third, ctx := begin(t, s)
	wants(t, "P13: mark of a run that was committed", s.MarkRun(ctx, lease, "r"), rowlock.ErrAlreadyRan)
	must(t, add(ctx, s, "other"))
	must(t, third.CommitTransaction(ctx))
	if n := number(t, s, "other"); n != 1 {
		t.Errorf("P14: the caller's transaction did not go on after ErrAlreadyRan")
	}
	err := s.Once(patient(t), lease, "r", func(ctx context.Context) error { return add(ctx, s, "r") })
	wants(t, "P13: Once", err, rowlock.ErrAlreadyRan)
	if n := number(t, s, "r"); n != 1 {
		t.Errorf("P13: the effects are there %d times", n)
	}
}

// An aborted run may be tried again, runs of different keys and names have nothing
// to do with each other, and names are bytes.
func TestP13_OnlyCommittedRunsCount(t *testing.T) {
	t.Parallel()
	s := shared(t)
	c := locker(t, s, rowlock.Options{})
	a, b := guarded(t, c, "a"), guarded(t, c, "b")
	fail := errors.New("mine")
	wants(t, "fn fails", s.Once(patient(t), a, "r", func(ctx context.Context) error { _ = add(ctx, s, "n"); return fail }), fail)
	runs := []string{"r", "R", "r ", "r\x00", "é", "e\u0301", "\xff", string(make([]byte, guards.MaxRun))}
	for _, lease := range []*rowlock.Lease{a, b} {
		for _, run := range runs {
			must(t, s.Once(patient(t), lease, run, func(ctx context.Context) error { return add(ctx, s, "n") }))
		}
		for _, run := range runs {
			err := s.Once(patient(t), lease, run, func(ctx context.Context) error { return add(ctx, s, "n") })
			wants(t, fmt.Sprintf("run %q again", run), err, rowlock.ErrAlreadyRan)
		}
	}
	if n := number(t, s, "n"); n != int64(2*len(runs)) {
		t.Errorf("P13: %d effects, want %d", n, 2*len(runs))
	}
}

// Two marks in one transaction are a mistake, which is told and marks nothing wrong.
func TestMarkTwiceInOneTransaction(t *testing.T) {
	t.Parallel()
	s := shared(t)
	lease := guarded(t, locker(t, s, rowlock.Options{}), "k")
	_, ctx := begin(t, s)
	must(t, s.MarkRun(ctx, lease, "r"))
	if err := s.MarkRun(ctx, lease, "r"); err == nil || errors.Is(err, rowlock.ErrAlreadyRan) {
		t.Errorf("second mark: %v, want an error other than ErrAlreadyRan: nothing is committed", err)
	}
}

func TestReapRuns(t *testing.T) {
	t.Parallel()
	s := shared(t)
	lease := guarded(t, locker(t, s, rowlock.Options{}), "k")
	none := func(context.Context) error { return nil }
	for _, run := range []string{"old", "new"} {
		must(t, s.Once(patient(t), lease, run, none))
	}
	marks := s.db.Collection(s.runs)
	_, err := marks.UpdateOne(t.Context(), document.Op("_id", runID("k", "old")), document.Op("$set", document.Op("at", time.Now().Add(-48*time.Hour))))
	must(t, err)
	var many []any // older than old ones, more than a call removes
	for i := range driver.MaxReap {
		many = append(many, bson.D{{Key: "_id", Value: runID("k", fmt.Sprint(i))}, {Key: "at", Value: time.Now().Add(-49 * time.Hour)}})
	}
	_, err = marks.InsertMany(t.Context(), many)
	must(t, err)
	_, err = marks.InsertOne(t.Context(), bson.D{{Key: "_id", Value: "not ours"}})
	must(t, err)
	old := func() int {
		n, err := marks.CountDocuments(patient(t), document.Op("at", document.Op("$lt", time.Now().Add(-24*time.Hour))))
		must(t, err)
		return int(n)
	}
	for end, left := time.Now().Add(2*time.Minute), old(); left > 0; left = old() {
		n, err := s.ReapRuns(patient(t), 24*time.Hour)
		switch now := old(); {
		case command.Blocked(err) && time.Now().Before(end): // a busy server: some may be gone
		case err != nil:
			t.Fatal(err)
		case n != min(left, driver.MaxReap) || now != left-n:
			t.Fatalf("reaped %d of %d old marks, %d are left", n, left, now)
		}
	}
	if n, err := s.ReapRuns(patient(t), 24*time.Hour); n != 0 || err != nil && !command.Blocked(err) {
		t.Errorf("reaped %d where none is old: %v", n, err)
	}
	_, err = s.ReapRuns(patient(t), time.Minute)
	wants(t, "a grace that is too short", err, rowlock.ErrInvalid)
	wants(t, "a young mark", s.Once(patient(t), lease, "new", none), rowlock.ErrAlreadyRan)
	must(t, s.Once(patient(t), lease, "old", none)) // its mark is gone
}

// A commit whose reply is lost, again and again, is committed once more until it is
// settled, and the effects are there once.
func TestP13_LostReplyToTheCommit(t *testing.T) {
	t.Parallel()
	p, s, _ := behindProxy(t)
	lease := guarded(t, locker(t, s, rowlock.Options{}), "k")
	p.loseNext(1<<30, "commitTransaction")
	time.AfterFunc(3*commitTry/2, func() { p.loseNext(0, "") }) // the driver itself repeats it for a commitTry
	calls := 0
	must(t, s.Once(patient(t), lease, "r", func(ctx context.Context) error { calls++; return effects(ctx, s, 0) }))
	if calls != 1 {
		t.Errorf("fn was called %d times for a commit that was executed", calls)
	}
	checkOnce(t, s, 1)
}

// unsettled makes the outcome of a commit, which is executed or not, unknown to a
// Once that gives up, calls Once again, and then lets the first commit arrive. The
// effects are there once.
func unsettled(t *testing.T, executed int) (again error) {
	t.Helper()
	p, s, _ := behindProxy(t)
	lease := guarded(t, locker(t, s, rowlock.Options{}), "k")
	ctx, cancel := context.WithCancel(patient(t))
	defer cancel()
	p.loseNext(executed, "commitTransaction")
	p.keepAfter(executed, "commitTransaction")
	go p.whenKept(cancel)
	err := s.Once(ctx, lease, "r", func(ctx context.Context) error { return effects(ctx, s, 0) })
	wants(t, "a commit that is not answered", err, rowlock.ErrUnknownOutcome)
	wants(t, "a commit that is not answered", err, context.Canceled)
	if lease.Err() != nil {
		t.Errorf("the lease has ended: %v", lease.Err())
	}
	p.pass()
	again = s.Once(patient(t), lease, "r", func(ctx context.Context) error { return effects(ctx, s, 0) })
	p.letGo()
	time.Sleep(100 * time.Millisecond)
	checkOnce(t, s, 1)
	return again
}

// whenKept does something when the first command is kept, at the latest after ten
// seconds.
func (p *proxy) whenKept(do func()) {
	for range 10_000 {
		p.mu.Lock()
		kept := p.kept
		p.mu.Unlock()
		if kept > 0 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	do()
}

// The commit was not executed when Once gave up: Once again makes the effects, and
// what arrives then is refused.
func TestP13_UnknownCommitThatWasNotExecuted(t *testing.T) {
	t.Parallel()
	must(t, unsettled(t, 0))
}

// It was executed: Once again says so.
func TestP13_UnknownCommitThatWasExecuted(t *testing.T) {
	t.Parallel()
	wants(t, "P13: Once again", unsettled(t, 1), rowlock.ErrAlreadyRan)
}

// A commit is refused for a reason that may pass, and the next sending is not answered in
// time. The driver then takes its session for one that commits, and would begin each
// later transaction with every statement.
func TestP13_SessionAfterAnUnknownCommit(t *testing.T) {
	srv := testserver.Start(t, testserver.Mongo) // a fail point is the server's
	p, s, beside := behindProxyOf(t, srv.DSN(), options.Client().SetAppName("odd"))
	lease := guarded(t, locker(t, s, rowlock.Options{}), "k")
	ctx, cancel := context.WithCancel(patient(t))
	defer cancel()
	failCommand(t, beside, "odd", "commitTransaction", bson.E{Key: "errorCode", Value: 8000})
	p.keepAfter(1, "commitTransaction")
	go p.whenKept(cancel)
	err := s.Once(ctx, lease, "r", func(ctx context.Context) error { return effects(ctx, s, 0) })
	wants(t, "a commit that is not answered", err, rowlock.ErrUnknownOutcome)
	p.pass()
	must(t, s.Once(patient(t), lease, "r", func(ctx context.Context) error { return effects(ctx, s, 0) }))
	p.letGo()
	checkOnce(t, s, 1)
}

// Two goroutines try one run with one lease. The commit of the first does not arrive, and
// its transaction is ended by the server, while the second waits: the effects are there
// once, and only the one that made them is told nil.
func TestP13_TwoOfOneLease(t *testing.T) {
	t.Parallel()
	p, s, other := behindProxy(t)
	lease := guarded(t, locker(t, s, rowlock.Options{}), "k")
	begun, second := make(chan struct{}), make(chan error, 1)
	p.keep("commitTransaction")
	go p.whenKept(func() {
		go func() {
			close(begun)
			second <- s.Once(patient(t), lease, "r", func(ctx context.Context) error { return add(ctx, s, "second") })
		}()
		<-begun
		ended, err := false, error(nil)
		for range 20 { // a busy server may have no time for it
			if ended, err = other.fence.EndOlder(t.Context(), []string{"k"}, []int64{math.MaxInt64}); ended || err != nil {
				break
			}
		}
		if !ended || err != nil {
			t.Errorf("the transaction could not be ended: %v, %v", ended, err)
		}
		p.pass()
	})
	first := s.Once(patient(t), lease, "r", func(ctx context.Context) error { return add(ctx, s, "first") })
	then := <-second
	p.letGo()
	for _, one := range []struct {
		name string
		err  error
	}{{"first", first}, {"second", then}} {
		want := int64(1)
		if one.err != nil {
			wants(t, "P13: the "+one.name, one.err, rowlock.ErrAlreadyRan)
			want = 0
		}
		if n := number(t, other, one.name); n != want {
			t.Errorf("P13: the %s was told %v, and has %d effects", one.name, one.err, n)
		}
	}
	if n := number(t, other, "first") + number(t, other, "second"); n != 1 {
		t.Errorf("P13: %d effects", n)
	}
}

// Neither commit nor abort arrive: the next holder ends the transaction, and the
// commit that comes then is refused.
func TestP13_UnknownCommitAndTheNextHolder(t *testing.T) {
	t.Parallel()
	p, s, other := behindProxy(t)
	lease := guarded(t, locker(t, s, rowlock.Options{}), "k")
	p.keepAfter(1, "Transaction") // all but the first statement
	ctx, cancel := context.WithCancel(patient(t))
	defer cancel()
	go p.whenKept(cancel)
	err := s.Once(ctx, lease, "r", func(ctx context.Context) error { return effects(ctx, s, 0) })
	wants(t, "a commit that is not answered", err, rowlock.ErrUnknownOutcome)
	expire(t, other, "k")
	next := guarded(t, locker(t, other, rowlock.Options{}), "k")
	must(t, other.Once(patient(t), next, "r", func(ctx context.Context) error { return effects(ctx, other, 0) }))
	p.letGo()
	if !p.answered("NoSuchTransaction") {
		t.Error("P4: the late commit was not refused")
	}
	checkOnce(t, other, 1)
}

// MarkRun in WithTransaction: the driver's loop commits again.
func TestP13_MarkRunByWithTransaction(t *testing.T) {
	t.Parallel()
	p, s, _ := behindProxy(t)
	lease := guarded(t, locker(t, s, rowlock.Options{}), "k")
	sess, err := s.db.Client().StartSession()
	must(t, err)
	defer sess.EndSession(context.Background())
	run := func() error {
		_, err := sess.WithTransaction(t.Context(), func(ctx context.Context) (any, error) {
			if err := s.MarkRun(ctx, lease, "r"); err != nil {
				return nil, err
			}
			return nil, effects(ctx, s, 0)
		}, ownTransactions)
		return err
	}
	p.loseNext(3, "commitTransaction")
	must(t, run())
	wants(t, "P13: again", run(), rowlock.ErrAlreadyRan)
	checkOnce(t, s, 1)
}
