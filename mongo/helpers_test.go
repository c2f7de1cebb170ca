package mongolock

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/testserver"
	"github.com/rowlock/rowlock/mongo/internal/command"
)

// connect opens a client that is closed with the test.
func connect(t testing.TB, uri string, opts ...*options.ClientOptions) *mongo.Client {
	t.Helper()
	o := options.Client().ApplyURI(uri).SetConnectTimeout(10 * time.Second).SetServerSelectionTimeout(10 * time.Second).
		SetHeartbeatInterval(500 * time.Millisecond)
	c, err := mongo.Connect(append([]*options.ClientOptions{o}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	atEnd(t, 2*time.Second, c.Disconnect)
	return c
}

// atEnd calls f when the test has ended, for at most d.
func atEnd(t testing.TB, d time.Duration, f func(context.Context) error) {
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), d)
		defer cancel()
		_ = f(ctx)
	})
}

// database is one of the test's own on the server at uri.
func database(t testing.TB, uri string, opts ...*options.ClientOptions) *mongo.Database {
	t.Helper()
	b := make([]byte, 6)
	rand.Read(b)
	db := connect(t, uri, opts...).Database("rowlock_" + hex.EncodeToString(b))
	atEnd(t, 10*time.Second, db.Drop)
	return db
}

// open makes a Store on db, migrated.
func open(t testing.TB, db *mongo.Database, o Options) *Store {
	t.Helper()
	s, err := New(db.Collection("locks"), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

// shared opens a Store in a database of its own on the shared server.
func shared(t testing.TB) *Store {
	t.Helper()
	return open(t, database(t, testserver.DSN(t, testserver.Mongo)), Options{})
}

func newID() (id driver.HoldID) {
	rand.Read(id[:])
	return id
}

func request(key string) driver.Request {
	return driver.Request{Key: key, ID: newID(), Owner: "test", TTL: time.Minute}
}

func holdOf(q driver.Request, r driver.Result) driver.Hold {
	return driver.Hold{Key: q.Key, ID: q.ID, Token: r.Token, Stored: r.Stored, TTL: q.TTL, Keep: q.Keep, Guarded: q.Guarded}
}

// patiently repeats a call that a server under load did not finish in time, as the
// engine does.
func patiently[R any](call func() (R, error)) (r R, err error) {
	for range 20 {
		if r, err = call(); !command.Blocked(err) {
			break
		}
	}
	return r, err
}

func acquire(t testing.TB, s *Store, q driver.Request) driver.Result {
	t.Helper()
	results, err := patiently(func() ([]driver.Result, error) { return s.Acquire(t.Context(), []driver.Request{q}) })
	if err != nil {
		t.Fatalf("acquire %q: %v", q.Key, err)
	}
	return results[0]
}

func granted(t testing.TB, s *Store, q driver.Request) driver.Hold {
	t.Helper()
	r := acquire(t, s, q)
	if r.Status != driver.Granted {
		t.Fatalf("acquire %q: %v, want granted", q.Key, r.Status)
	}
	return holdOf(q, r)
}

func renew(t testing.TB, s *Store, h driver.Hold) driver.Status {
	t.Helper()
	results, err := patiently(func() ([]driver.Result, error) { return s.Renew(t.Context(), []driver.Hold{h}) })
	if err != nil {
		t.Fatalf("renew %q: %v", h.Key, err)
	}
	return results[0].Status
}

func release(t testing.TB, s *Store, h driver.Hold) driver.Result {
	t.Helper()
	results, err := patiently(func() ([]driver.Result, error) { return s.Release(t.Context(), []driver.Hold{h}) })
	if err != nil {
		t.Fatalf("release %q: %v", h.Key, err)
	}
	return results[0]
}

func inspect(t testing.TB, s *Store, key string) driver.Info {
	t.Helper()
	infos, err := patiently(func() ([]driver.Info, error) { return s.Inspect(t.Context(), []string{key}) })
	if err != nil {
		t.Fatalf("inspect %q: %v", key, err)
	}
	return infos[0]
}

func mustErr(t testing.TB, err, want error, lasting bool) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("error %v, want one that matches %q", err, want)
	}
	if driver.IsLasting(err) != lasting {
		t.Errorf("error %v: lasting %v, want %v", err, driver.IsLasting(err), lasting)
	}
}

// writes counts the entries of the oplog about a collection of s.
func writes(t testing.TB, s *Store, collection string) int64 {
	t.Helper()
	n, err := s.db.Client().Database("local").Collection("oplog.rs").CountDocuments(t.Context(),
		bson.D{{Key: "$or", Value: bson.A{
			bson.D{{Key: "ns", Value: s.db.Name() + "." + collection}},
			bson.D{{Key: "o.applyOps.ns", Value: s.db.Name() + "." + collection}},
		}}})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// blockDocument writes a document in a transaction that stays open until unblock.
func blockDocument(t testing.TB, coll *mongo.Collection, id any) (unblock func()) {
	t.Helper()
	sess, err := coll.Database().Client().StartSession()
	if err != nil {
		t.Fatal(err)
	}
	if err := sess.StartTransaction(); err != nil {
		t.Fatal(err)
	}
	ctx := mongo.NewSessionContext(context.Background(), sess)
	if _, err := coll.UpdateOne(ctx, bson.D{{Key: "_id", Value: id}}, bson.D{{Key: "$inc", Value: bson.D{{Key: "foreign", Value: 1}}}},
		options.UpdateOne().SetUpsert(true)); err != nil {
		t.Fatal(err)
	}
	done := false
	unblock = func() {
		if !done {
			done = true
			_ = sess.AbortTransaction(context.Background())
			sess.EndSession(context.Background())
		}
	}
	t.Cleanup(unblock)
	return unblock
}
