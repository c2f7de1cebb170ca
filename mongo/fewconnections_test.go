package mongolock

import (
	"context"
	"crypto/rand"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/testserver"
	"github.com/rowlock/rowlock/mongo/internal/command"
)

// few is a Store with few connections on a client of its own whose pool allows so many, and the name by which the server knows it.
func few(t testing.TB, size uint64) (s *Store, app string) {
	t.Helper()
	app = "few " + rand.Text()
	client := connect(t, testserver.DSN(t, testserver.Mongo), options.Client().SetMaxPoolSize(size).SetAppName(app))
	s, err := New(client.Database(shared(t).db.Name()).Collection("locks"), Options{FewConnections: true})
	must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s, app
}

// connectionsOf counts those of a client, with those by which the driver watches the server.
func connectionsOf(t testing.TB, app string) int {
	t.Helper()
	cursor, err := shared(t).db.Client().Database("admin").Aggregate(patient(t), mongo.Pipeline{
		{{Key: "$currentOp", Value: bson.D{{Key: "allUsers", Value: true}, {Key: "idleConnections", Value: true}}}},
		{{Key: "$match", Value: bson.D{{Key: "appName", Value: app}}}},
	})
	must(t, err)
	var all []struct {
		ConnectionID int `bson:"connectionId"`
	}
	must(t, cursor.All(patient(t), &all))
	different := make(map[int]bool)
	for _, o := range all {
		different[o.ConnectionID] = true
	}
	return len(different)
}

// TestFewConnections: a pool of three connections does for a program that waits with a change stream, holds, guards and marks a run,
// and the key goes to the next as soon as it is released.
func TestFewConnections(t *testing.T) {
	t.Parallel()
	const monitors = 2 // of the one server
	ctx := patient(t)
	first, ofFirst := few(t, command.MinFewConns)
	second, ofSecond := few(t, command.MinFewConns)
	must(t, first.Check(ctx))
	a, b := locker(t, first, rowlock.Options{TTL: 5 * time.Second}), locker(t, second, rowlock.Options{TTL: 5 * time.Second})
	key := rand.Text()
	held := guarded(t, a, key)
	must(t, held.Renew(ctx))
	got := make(chan *rowlock.Lease, 1)
	go func() {
		lease, err := b.Acquire(ctx, key, rowlock.Guarded(), rowlock.Fair())
		if err != nil {
			t.Error(err)
		}
		got <- lease
	}()
	for second.Statements() < 10 { // it looks again and again
		time.Sleep(5 * time.Millisecond)
		must(t, ctx.Err())
	}
	must(t, first.Once(ctx, held, "run", func(context.Context) error {
		if err := held.Renew(ctx); err != nil {
			t.Errorf("a renewal beside a transaction: %v", err)
		}
		return nil
	}))
	for who, app := range map[string]string{"the holder": ofFirst, "the one that waits": ofSecond} {
		if n := connectionsOf(t, app); n < 1 || n > command.MinFewConns+monitors {
			t.Errorf("%s has %d connections, want at most %d", who, n, command.MinFewConns+monitors)
		}
	}
	must(t, held.Release(ctx))
	lease := <-got
	if lease == nil {
		return
	}
	must(t, lease.Renew(ctx))
	must(t, lease.Release(ctx))
}

// TestFewConnectionsPool: Check names both numbers where the pool is smaller.
func TestFewConnectionsPool(t *testing.T) {
	t.Parallel()
	s, _ := few(t, command.MinFewConns-1)
	mustErr(t, s.Check(patient(t)), driver.ErrInvalid, true)
}
