package mongolock

import (
	"context"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/internal/misuse"
	"github.com/rowlock/rowlock/internal/testserver"
)

// TestMisuse: mistakes that a server or a client answers say, through the Client, what to do, and nothing twice.
func TestMisuse(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), testserver.Patience(t))
	defer cancel()
	uri := testserver.DSN(t, testserver.Mongo)
	locks := func(s *Store) *rowlock.Client {
		c, err := rowlock.New(s, rowlock.Options{ReapInterval: -1, Owner: "web-1:4711"})
		if err != nil {
			t.Fatal(err)
		}
		atEnd(t, 5*time.Second, c.Close)
		return c
	}
	store := func(c *mongo.Collection) *Store {
		s, err := New(c, Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
	acquire := func(s *Store, d time.Duration) error {
		soon, cancel := context.WithTimeout(ctx, d)
		defer cancel()
		_, err := locks(s).Acquire(soon, "k")
		return err
	}
	fails := func(_ any, err error) error { return err }

	db := database(t, uri)
	forgotten := acquire(store(db.Collection("locks")), testserver.Patience(t))
	s := open(t, db, Options{})
	c := locks(s)
	plain, err := c.Acquire(ctx, "plain")
	if err != nil {
		t.Fatal(err)
	}
	guarded, err := c.Acquire(ctx, "guarded", rowlock.Guarded())
	if err != nil {
		t.Fatal(err)
	}
	soon, cancelSoon := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancelSoon()
	_, again := c.Acquire(soon, "plain")
	nothing := func(context.Context) error { return nil }
	elsewhere := connect(t, uri).Database(db.Name()).Collection("orders")
	away := connect(t, uri)
	if err := away.Disconnect(ctx); err != nil {
		t.Fatal(err)
	}

	misuse.Judge(t,
		misuse.Answer("forgot Migrate", forgotten, rowlock.ErrSchema, "run Migrate"),
		misuse.Answer("a closed port", acquire(store(connect(t, "mongodb://127.0.0.1:1/?replicaSet=rs0").Database("app").Collection("locks")), 2*time.Second),
			context.DeadlineExceeded, "127.0.0.1:1", "refused"),
		misuse.Answer("a client that is disconnected", acquire(store(away.Database("app").Collection("locks")), 2*time.Second), nil, "the mongo.Client was disconnected"),
		misuse.Answer("no collection", fails(New(nil, Options{})), rowlock.ErrInvalid, "mongolock.New needs a collection"),
		misuse.Answer("a name with a dot", fails(New(db.Collection("a.b"), Options{})), rowlock.ErrInvalid, `"a.b": use 1 to 100 letters`),
		misuse.Answer("a key that this program holds", again, rowlock.ErrHeld, `"plain" is held by web-1:4711`),
		misuse.Answer("a guard without Guarded", s.InTx(ctx, plain, nothing), rowlock.ErrInvalid, "rowlock.Guarded()"),
		misuse.Answer("a guard without a session", s.Guard(ctx, guarded), rowlock.ErrInvalid, "no session in the context: pass the one that Session.WithTransaction hands to its function"),
		misuse.Answer("collections of another client", s.InTx(ctx, guarded, func(ctx context.Context) error {
			_, err := elsewhere.InsertOne(ctx, bson.M{"n": 1})
			return err
		}), rowlock.ErrInvalid, "use collections of the client that the Store was made with"),
		misuse.Answer("no function", s.InTx(ctx, guarded, nil), rowlock.ErrInvalid, "the function is nil"),
	)
}
