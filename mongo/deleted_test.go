package mongolock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/locktest"
	"github.com/rowlock/rowlock/mongo/internal/document"
)

// deleteLease removes the document of a key, as an operator at night, a restore or a
// TTL index does. The flag that the key was guarded goes with it.
func deleteLease(t testing.TB, s *Store, key string) {
	t.Helper()
	reply, err := s.db.Collection(s.leases).DeleteOne(context.Background(), document.ByKey(key))
	if err != nil || reply.DeletedCount != 1 {
		t.Fatalf("delete %q: %+v, %v", key, reply, err)
	}
}

// Somebody deletes the document of a key while a guarded transaction of its holder is
// open. An acquire of the key then, guarded or not, alone or among others, is
// granted it after the end of that transaction.
func TestP4_DeletedDocument(t *testing.T) {
	t.Parallel()
	s := shared(t)
	a, b := locker(t, s, rowlock.Options{}), locker(t, s, rowlock.Options{})

	// pinned opens a guarded transaction and deletes the document.
	pinned := func(t *testing.T, key string) (*mongo.Session, context.Context) {
		old := guarded(t, a, key)
		sess, ctx := begin(t, s)
		must(t, s.Guard(ctx, old))
		must(t, add(ctx, s, key))
		deleteLease(t, s, key)
		return sess, ctx
	}
	commit := func(t *testing.T, key string, sess *mongo.Session, ctx context.Context) {
		t.Helper()
		if err := sess.CommitTransaction(ctx); err != nil {
			t.Errorf("P14: the caller's transaction was ended: %v", err)
		}
		release(t, s, granted(t, s, request(key)))
	}
	for name, opts := range map[string][]rowlock.Option{"alone": nil, "guarded": {rowlock.Guarded()}} {
		t.Run(name, func(t *testing.T) {
			sess, ctx := pinned(t, name)
			for range 2 { // the second finds the document that the first has made
				if _, err := b.TryAcquire(patient(t), name, opts...); !errors.Is(err, rowlock.ErrHeld) {
					t.Errorf("P4: %v: granted while a guarded transaction of the old holder is open", err)
				}
			}
			commit(t, name, sess, ctx)
		})
	}
	t.Run("batch", func(t *testing.T) {
		sess, ctx := pinned(t, "b1")
		for range 2 {
			var reqs []driver.Request
			for i := range 3 {
				reqs = append(reqs, request(fmt.Sprint("b", i)))
			}
			results, err := s.Acquire(patient(t), reqs)
			must(t, err)
			for i, r := range results {
				switch {
				case noTime(r.Err): // a loaded server
					release(t, s, undoOf(reqs[i]))
				case i == 1 && r.Status == driver.Granted:
					t.Errorf("P4: %q was granted while a guarded transaction of the old holder is open", reqs[i].Key)
				case i != 1 && r.Status != driver.Granted:
					t.Errorf("P15: %q: %v, %v", reqs[i].Key, r.Status, r.Err)
				case i != 1:
					release(t, s, holdOf(reqs[i], r))
				}
			}
		}
		commit(t, "b1", sess, ctx)
	})
	t.Run("granted and never answered", func(t *testing.T) {
		// The program that made the document died before it looked for a fence.
		sess, ctx := pinned(t, "died")
		o, err := s.sessions.Get()
		must(t, err)
		_, err = s.attempt(t.Context(), o, request("died"), blockWait)
		must(t, err)
		expire(t, s, "died")
		if _, err := b.TryAcquire(patient(t), "died"); !errors.Is(err, rowlock.ErrHeld) {
			t.Errorf("P4: %v: granted while a guarded transaction of the old holder is open", err)
		}
		commit(t, "died", sess, ctx)
	})
	t.Run("guard behind it", func(t *testing.T) {
		old := guarded(t, a, "behind")
		_, ctx := begin(t, s)
		must(t, add(ctx, s, "behind"))
		deleteLease(t, s, "behind")
		release(t, s, granted(t, s, request("behind")))
		if err := s.Guard(ctx, old); err == nil {
			t.Errorf("P4: guard after a newer grant")
		}
	})
	t.Run("InTx", func(t *testing.T) {
		old := guarded(t, a, "intx")
		err := s.InTx(patient(t), old, func(ctx context.Context) error {
			must(t, add(ctx, s, "intx"))
			deleteLease(t, s, "intx")
			release(t, s, granted(t, s, request("intx"))) // ends the session
			return nil
		})
		wants(t, "P4: InTx", err, rowlock.ErrLost)
		if n := number(t, s, "intx"); n != 0 {
			locktest.Breach(t, "P4", "stale commit")
		}
	})
}

// A key without a document pays a read for it. One that has a document pays nothing,
// and no write is added.
func TestFreshKeysLookForAFence(t *testing.T) {
	t.Parallel()
	s := shared(t)
	must(t, s.Check(t.Context()))
	inspect(t, s, "first use")
	// least is what steps on keys of which nothing is there yet take, on a server that answers each command in time: one that
	// does not is asked more often.
	least := func(what string, want []uint64, step func(try, n int)) {
		t.Helper()
		got := make([]uint64, len(want))
		for try := range 20 {
			enough := true
			for n := range want {
				before := s.Statements()
				step(try, n)
				if sent := s.Statements() - before; try == 0 || sent < got[n] {
					got[n] = sent
				}
				enough = enough && got[n] <= want[n]
			}
			if enough {
				break
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %d commands, want %d", what, got, want)
		}
	}
	least("a key taken and released three times", []uint64{3, 2, 2}, func(try, _ int) {
		release(t, s, granted(t, s, request(fmt.Sprint("one", try))))
	})
	// An updateMany, a find, and the release; before that the upserts, a find and the look.
	least("20 keys taken and released twice", []uint64{6, 3}, func(try, _ int) {
		var reqs []driver.Request
		for i := range 20 {
			reqs = append(reqs, request(fmt.Sprintf("many%d of %d", i, try)))
		}
		results, err := s.Acquire(patient(t), reqs)
		must(t, err)
		var holds []driver.Hold
		for i, r := range results {
			if r.Status != driver.Granted {
				t.Errorf("%q: %v, %v", reqs[i].Key, r.Status, r.Err)
			}
			holds = append(holds, holdOf(reqs[i], r))
		}
		_, err = s.Release(patient(t), holds)
		must(t, err)
	})
}
