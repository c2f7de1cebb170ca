package mongolock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/testserver"
	"github.com/rowlock/rowlock/locktest"
	"github.com/rowlock/rowlock/mongo/internal/document"
)

// inside stays in a transaction for ever.
func (j txJob) inside(t *testing.T, s *Store, c *rowlock.Client) {
	lease := guarded(t, c, "k")
	err := s.InTx(context.Background(), lease, func(ctx context.Context) error {
		must(t, add(ctx, s, "k"))
		fmt.Println("inside", lease.Token())
		<-ctx.Done()
		return context.Cause(ctx)
	})
	fmt.Println("ended", err)
}

// A process that is killed in a transaction of InTx holds the key until its TTL is
// over, not until the server ends the transaction after a minute.
func TestP4_InTxOfAKilledProcess(t *testing.T) {
	testserver.Long(t)
	t.Parallel()
	s := shared(t)
	p := child(t, s, txJob{Role: "inside", TTL: time.Second})
	token, err := strconv.ParseInt(p.says("inside"), 10, 64)
	must(t, err)
	must(t, p.Kill())
	start := time.Now()
	lease := guarded(t, locker(t, s, rowlock.Options{}), "k")
	took := time.Since(start)
	t.Logf("granted %v after the kill (TTL 1s)", took)
	if took > 20*time.Second {
		t.Errorf("granted %v after the kill: the dead transaction pinned the key", took)
	}
	if lease.Token() <= token {
		locktest.Breach(t, "P3", "token %d after %d", lease.Token(), token)
	}
	if n := number(t, s, "k"); n != 0 {
		t.Errorf("P4: the dead process committed")
	}
	must(t, s.InTx(t.Context(), lease, func(ctx context.Context) error { return add(ctx, s, "k") }))
}

// effects are those of a run: they are not idempotent.
func effects(ctx context.Context, s *Store, run int64) error {
	if _, err := s.db.Collection("effects").InsertOne(ctx, bson.D{{Key: "run", Value: run}}); err != nil {
		return err
	}
	return add(ctx, s, "runs")
}

// once makes the runs in their order, like every other such process.
func (j txJob) once(t *testing.T, s *Store, c *rowlock.Client) {
	fmt.Println("begins", os.Getpid())
	for run := number(t, s, "runs"); ; {
		lease, err := c.Acquire(context.Background(), "k", rowlock.Guarded())
		must(t, err)
		err = s.Once(context.Background(), lease, fmt.Sprint(run), func(ctx context.Context) error {
			time.Sleep(rand.N(10 * time.Millisecond)) // a larger target
			return effects(ctx, s, run)
		})
		switch {
		case err == nil || errors.Is(err, rowlock.ErrAlreadyRan):
			run++
		case errors.Is(err, rowlock.ErrLost) || errors.Is(err, rowlock.ErrUnknownOutcome):
		default:
			fmt.Println("failed", err)
			return
		}
		_ = lease.Release(context.Background())
	}
}

// Three processes make runs, and one of them is killed at a random moment, again and
// again: each run has its effects once.
func TestP13_OnceOfKilledProcesses(t *testing.T) {
	testserver.Long(t)
	s := shared(t)
	kills := often(t, "ROWLOCK_KILLS", 20)
	var wg sync.WaitGroup
	for n := range 3 {
		wg.Go(func() {
			for range (kills + n) / 3 {
				p := child(t, s, txJob{Role: "once", TTL: 150 * time.Millisecond})
				p.says("begins")
				time.Sleep(time.Duration(rand.IntN(500)) * time.Millisecond)
				_ = p.Kill()
				for p.lines.Scan() {
					t.Errorf("a child: %s", p.lines.Text())
				}
			}
		})
	}
	wg.Wait()
	c := locker(t, s, rowlock.Options{})
	must(t, guarded(t, c, "k").Release(t.Context())) // comes after a commit of a killed one that is still under way
	runs := number(t, s, "runs")
	for run := range runs + 1 { // all of them again, and one more
		lease := guarded(t, c, "k")
		err := s.Once(t.Context(), lease, fmt.Sprint(run), func(ctx context.Context) error { return effects(ctx, s, run) })
		if want := run < runs; want != errors.Is(err, rowlock.ErrAlreadyRan) || !want && err != nil {
			t.Errorf("P13: run %d of %d: %v", run, runs, err)
		}
		must(t, lease.Release(t.Context()))
	}
	checkOnce(t, s, runs+1)
	t.Logf("%d kills, %d runs", kills, runs)
}

// checkOnce looks whether the runs 0 to n-1, and no others, have had their effects,
// each once.
func checkOnce(t *testing.T, s *Store, n int64) {
	t.Helper()
	cursor, err := s.db.Collection("effects").Find(t.Context(), bson.D{})
	must(t, err)
	var docs []struct{ Run int64 }
	must(t, cursor.All(t.Context(), &docs))
	seen := make(map[int64]int)
	for _, doc := range docs {
		seen[doc.Run]++
	}
	for run := range n {
		if seen[run] != 1 {
			t.Errorf("P13: run %d had its effects %d times", run, seen[run])
		}
	}
	marks, err := s.db.Collection(s.runs).CountDocuments(t.Context(), bson.D{})
	must(t, err)
	if int64(len(docs)) != n || number(t, s, "runs") != n || marks != n {
		t.Errorf("P13: %d effects, counted %d, and %d marks of %d runs", len(docs), number(t, s, "runs"), marks, n)
	}
}

// What InTx or Once left open is ended by whoever finds it, also one that found the key
// pinned before: by an earlier holder, whose transaction has ended since.
func TestDeadTransactionBehindAnother(t *testing.T) {
	testserver.Long(t)
	t.Parallel()
	dying := shared(t)
	s := open(t, dying.db, Options{})
	for _, n := range []int{1, 3, 2 * maxLooks} {
		prefix := fmt.Sprint("n", n, "/")
		dead := requests(prefix, n)
		for i := range dead {
			dead[i].Guarded, dead[i].TTL = true, 5*time.Second
		}
		holds := grantedAll(t, dying, dead)
		for _, q := range dead {
			sess := dying.txSessions.Find(q.ID).Driver
			must(t, sess.StartTransaction(ownTransactions))
			_, err := dying.inside(sess, dying.fences).UpdateOne(mongo.NewSessionContext(t.Context(), sess),
				document.ByKey(q.Key), document.Op("$inc", document.Op("n", int64(1))))
			must(t, err)
		}
		for _, h := range holds {
			release(t, s, h) // dying does not know of it
		}
		reqs := requests(prefix, n)
		for i := range reqs {
			reqs[i].Pinned = true
		}
		got := make(map[string]bool)
		for try := 0; len(got) < n; try++ { // it looks at some at a time
			if try == 20 {
				t.Fatalf("of %d keys that transactions of the dead pin %d were granted", n, len(got))
			}
			results, err := s.Acquire(t.Context(), reqs)
			must(t, err)
			for i, r := range results {
				if r.Status == driver.Granted {
					got[reqs[i].Key] = true
				}
			}
		}
		for _, q := range dead {
			if err := dying.txSessions.Find(q.ID).Driver.CommitTransaction(t.Context()); err == nil {
				t.Errorf("P4: %q: the dead transaction committed after the next grant", q.Key)
			}
		}
	}
}
