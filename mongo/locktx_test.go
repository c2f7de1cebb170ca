package mongolock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/internal/testserver"
	"github.com/rowlock/rowlock/mongo/internal/document"
)

// lockAndAdd adds one to the number id by reading and writing it, under its lock. The
// lock is all that keeps two of them apart: each has a document of its own to write.
func lockAndAdd(ctx context.Context, s *Store, keys ...string) error {
	sess, err := s.db.Client().StartSession()
	if err != nil {
		return err
	}
	defer sess.EndSession(context.Background())
	_, err = sess.WithTransaction(ctx, func(ctx context.Context) (any, error) {
		if err := s.LockTx(ctx, keys...); err != nil {
			return nil, err
		}
		n, err := data(s).CountDocuments(ctx, document.Op("of", keys[0]))
		if err != nil {
			return nil, err
		}
		_, err = data(s).InsertOne(ctx, bson.D{{Key: "of", Value: keys[0]}, {Key: "n", Value: n}})
		return nil, err
	}, ownTransactions)
	return err
}

// Transactions under one key come one after the other: without the lock two of them
// would count the same number of documents.
func TestLockTxExcludes(t *testing.T) {
	t.Parallel()
	s := shared(t)
	ctx, cancel := context.WithTimeout(t.Context(), testserver.Patience(t))
	defer cancel()
	var wg sync.WaitGroup
	const workers, rounds = 4, 5
	for worker := range workers {
		wg.Go(func() {
			for range rounds {
				keys := []string{"a", "b"}
				if worker%2 == 1 {
					keys = []string{"a", "c", "b", "a"} // sorted, so nobody locks b before a
				}
				if err := s.WaitTx(ctx, keys...); err != nil {
					t.Error(err)
				}
				if err := lockAndAdd(ctx, s, keys...); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	for n := range int64(workers * rounds) {
		count, err := data(s).CountDocuments(t.Context(), bson.D{{Key: "of", Value: "a"}, {Key: "n", Value: n}})
		must(t, err)
		if count != 1 {
			t.Errorf("P8: %d transactions counted %d before them", count, n)
		}
	}
}

func TestLockTxBusy(t *testing.T) {
	t.Parallel()
	s := shared(t)
	holder, inside := begin(t, s)
	must(t, s.LockTx(inside, "b", "a"))
	must(t, s.LockTx(inside, "b")) // again
	must(t, s.LockTx(inside))
	_, other := begin(t, s)
	err := s.LockTx(other, "c", "b")
	wants(t, "P8: a key that is locked", err, rowlock.ErrConflict)
	var l mongo.ServerError
	if !errors.As(err, &l) || !l.HasErrorLabel("TransientTransactionError") {
		t.Errorf("P8: %v does not show the driver's error", err)
	}
	_, other = begin(t, s)
	must(t, s.LockTx(other, "c", "A", "b ")) // other keys

	ctx, cancel := context.WithTimeout(inside, 100*time.Millisecond) // with the session of the holder
	defer cancel()
	wants(t, "wait for a key that is locked", s.WaitTx(ctx, "a"), context.DeadlineExceeded)
	waited := make(chan error, 1)
	go func() { waited <- s.WaitTx(t.Context(), "b", "a") }()
	select {
	case err := <-waited:
		t.Errorf("waited for nothing: %v", err)
	case <-time.After(200 * time.Millisecond):
	}
	must(t, holder.CommitTransaction(inside))
	must(t, <-waited)
	must(t, s.WaitTx(t.Context()))

	// Not the first statement: somebody has committed since.
	late, ctx2 := begin(t, s)
	must(t, add(ctx2, s, "n"))
	first, ctx3 := begin(t, s)
	must(t, s.LockTx(ctx3, "d"))
	must(t, first.CommitTransaction(ctx3))
	wants(t, "P8: lock behind a snapshot", s.LockTx(ctx2, "d"), rowlock.ErrConflict)
	_ = late.AbortTransaction(ctx2)
}

func TestLockTxErrors(t *testing.T) {
	t.Parallel()
	s := shared(t)
	_, inside := begin(t, s)
	for name, err := range map[string]error{
		"no session":    s.LockTx(t.Context(), "k"),
		"empty key":     s.LockTx(inside, "k", ""),
		"long key":      s.LockTx(inside, fmt.Sprintf("%0256d", 1)),
		"wait, bad key": s.WaitTx(t.Context(), ""),
	} {
		wants(t, name, err, rowlock.ErrInvalid)
	}
	must(t, s.LockTx(inside, "k"))
	must(t, s.Close())
	wants(t, "closed", s.LockTx(inside, "k"), rowlock.ErrClosed)
	wants(t, "closed", s.WaitTx(t.Context(), "k"), rowlock.ErrClosed)
}
