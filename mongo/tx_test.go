package mongolock

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mongo/internal/document"
)

// Helpers for the tests of guarded transactions. The data that transactions write
// is in the collection data of the Store's database.

// locker makes a Client of s.
func locker(t testing.TB, s driver.Store, o rowlock.Options) *rowlock.Client {
	t.Helper()
	if o.ReapInterval == 0 {
		o.ReapInterval = -1
	}
	c, err := rowlock.New(s, o)
	if err != nil {
		t.Fatal(err)
	}
	atEnd(t, 5*time.Second, c.Close)
	return c
}

// guarded acquires key with Guarded and a TTL of half a minute: the client sends no
// renewal by itself while a test lasts, and does not notice what is done to the
// document meanwhile.
func guarded(t testing.TB, c *rowlock.Client, key string) *rowlock.Lease {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	lease, err := c.Acquire(ctx, key, rowlock.Guarded())
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

// beside is another Store on the collection of s, with a mongo.Client of its own.
func beside(t testing.TB, s *Store, uri string, opts ...*options.ClientOptions) *Store {
	t.Helper()
	other, err := New(connect(t, uri, opts...).Database(s.db.Name()).Collection(s.leases), Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = other.Close() })
	return other
}

// expire makes the hold of key a dead one for the database, as if its holder had
// not renewed it. The client knows nothing.
func expire(t testing.TB, s *Store, key string) {
	t.Helper()
	_, err := s.db.Collection(s.leases).UpdateOne(context.Background(), document.ByKey(key),
		document.Op("$set", document.Op("expiresAt", time.Now().Add(-time.Hour))))
	if err != nil {
		t.Fatal(err)
	}
}

func data(s *Store) *mongo.Collection { return s.db.Collection("data") }

// add adds one to the number id. In a transaction it belongs to that.
func add(ctx context.Context, s *Store, id string) error {
	_, err := data(s).UpdateOne(ctx, document.Op("_id", id), document.Op("$inc", document.Op("n", int64(1))), options.UpdateOne().SetUpsert(true))
	return err
}

// number reads it.
func number(t testing.TB, s *Store, id string) int64 {
	t.Helper()
	var doc struct{ N int64 }
	err := data(s).FindOne(context.Background(), document.Op("_id", id)).Decode(&doc)
	if err != nil && !errors.Is(err, mongo.ErrNoDocuments) {
		t.Fatal(err)
	}
	return doc.N
}

// begin opens a transaction of the test's own; ctx carries it.
func begin(t testing.TB, s *Store) (sess *mongo.Session, ctx context.Context) {
	t.Helper()
	sess, err := s.db.Client().StartSession()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sess.EndSession(context.Background()) })
	if err := sess.StartTransaction(ownTransactions); err != nil {
		t.Fatal(err)
	}
	return sess, mongo.NewSessionContext(context.Background(), sess)
}

func fenceOf(t testing.TB, s *Store, key string) (fence struct {
	Token int64
	Lsid  bson.Binary
	N     int64
}) {
	t.Helper()
	if err := s.db.Collection(s.fences).FindOne(t.Context(), document.ByKey(key)).Decode(&fence); err != nil {
		t.Fatal(err)
	}
	return fence
}

// wants fails the test if err does not match want.
func wants(t testing.TB, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: %v, want %v", what, err, want)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
