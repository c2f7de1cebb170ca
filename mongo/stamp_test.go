package mongolock

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/mongo/internal/document"
)

// stamp writes the token of a lease over that of the one who wrote before. If that
// was a newer one this commit is stale, and leaves a note of it, in the same
// transaction.
func stamp(ctx context.Context, s *Store, lease *rowlock.Lease) error {
	var before struct{ Token int64 }
	err := data(s).FindOneAndUpdate(ctx, document.Op("_id", "stamp"), document.Op("$set", document.Op("token", lease.Token()))).Decode(&before)
	if errors.Is(err, mongo.ErrNoDocuments) {
		_, err = data(s).InsertOne(ctx, bson.D{{Key: "_id", Value: "stamp"}, {Key: "token", Value: lease.Token()}})
		return err
	}
	if err != nil || before.Token <= lease.Token() {
		return err
	}
	_, err = s.db.Collection("stale").InsertOne(ctx, bson.D{{Key: "token", Value: lease.Token()}, {Key: "behind", Value: before.Token}})
	return err
}

// stale counts the stale commits.
func stale(t testing.TB, s *Store) int64 {
	t.Helper()
	n, err := s.db.Collection("stale").CountDocuments(context.Background(), bson.D{})
	must(t, err)
	return n
}

// frozen writes in transactions until the lease is lost. It tells what its first look
// after a long pause says, and what its last transaction.
func (j txJob) frozen(t *testing.T, s *Store, c *rowlock.Client) {
	lease := guarded(t, c, "k")
	var loops atomic.Int64
	looked := make(chan struct{})
	go func() {
		defer close(looked)
		for last := time.Now(); ; time.Sleep(time.Millisecond) {
			err := lease.Err()
			if gap := time.Since(last); gap > j.TTL {
				fmt.Println("look", map[bool]string{true: "lost", false: fmt.Sprint(err)}[errors.Is(err, rowlock.ErrLost)])
				return
			}
			last = time.Now()
		}
	}()
	for {
		err := s.InTx(context.Background(), lease, func(ctx context.Context) error { return stamp(ctx, s, lease) })
		if err != nil {
			<-looked
			fmt.Println("end", map[bool]string{true: "lost", false: fmt.Sprint(err)}[errors.Is(err, rowlock.ErrLost)])
			return
		}
		if loops.Add(1) == 3 {
			fmt.Println("works", lease.Token())
		}
	}
}
