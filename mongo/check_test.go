package mongolock

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/testserver"
	"github.com/rowlock/rowlock/locktest"
	"github.com/rowlock/rowlock/mongo/internal/document"
	"github.com/rowlock/rowlock/mongo/internal/schema"
)

func TestNewRefusesBadCollections(t *testing.T) {
	t.Parallel()
	if _, err := New(nil, Options{}); !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("nil collection: %v", err)
	}
	client := connect(t, "mongodb://127.0.0.1:1") // nothing is there, and nothing is asked
	for _, name := range []string{"", "a b", "a.b", "$a", "system.locks", "1st", "é", "a-b", strings.Repeat("x", 101)} {
		if _, err := New(client.Database("db").Collection(name), Options{}); !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("collection %q: %v, want ErrInvalid", name, err)
		}
	}
	for _, name := range []string{"locks", "_x", "Locks_2"} {
		if _, err := New(client.Database("db").Collection(name), Options{}); err != nil {
			t.Errorf("collection %q: %v", name, err)
		}
	}
}

func TestUseAfterClose(t *testing.T) {
	t.Parallel()
	s := shared(t)
	q := request("k")
	h := granted(t, s, q)
	for range 2 {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}
	sent := s.Statements()
	ctx := t.Context()
	for name, call := range map[string]func() error{
		"acquire": func() error { _, err := s.Acquire(ctx, []driver.Request{q}); return err },
		"renew":   func() error { _, err := s.Renew(ctx, []driver.Hold{h}); return err },
		"release": func() error { _, err := s.Release(ctx, []driver.Hold{h}); return err },
		"inspect": func() error { _, err := s.Inspect(ctx, []string{"k"}); return err },
		"list":    func() error { _, err := s.List(ctx, "", "", 1); return err },
		"force":   func() error { _, err := s.ForceRelease(ctx, "k"); return err },
		"reap":    func() error { _, err := s.Reap(ctx, time.Hour); return err },
		"migrate": func() error { return s.Migrate(ctx) },
		"check":   func() error { return s.Check(ctx) },
	} {
		err := call()
		if !errors.Is(err, driver.ErrClosed) || !driver.IsLasting(err) || !driver.IsNotApplied(err) {
			t.Errorf("%s: %v, want ErrClosed", name, err)
		}
	}
	if s.Statements() != sent {
		t.Error("something was sent")
	}
}

func TestMigrateByManyAtOnce(t *testing.T) {
	t.Parallel()
	db := database(t, testserver.DSN(t, testserver.Mongo))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			s, err := New(db.Collection("locks"), Options{})
			if err != nil {
				t.Error(err)
				return
			}
			defer s.Close()
			for range 2 {
				if err := s.Migrate(t.Context()); err != nil {
					t.Errorf("migrate: %v", err)
				}
			}
			if err := s.Check(t.Context()); err != nil {
				t.Errorf("check: %v", err)
			}
		})
	}
	wg.Wait()
	names, err := db.ListCollectionNames(t.Context(), bson.D{})
	if err != nil || len(names) != 4 {
		t.Errorf("collections %v, %v", names, err)
	}
}

func TestSchemaThatDoesNotFit(t *testing.T) {
	t.Parallel()
	uri := testserver.DSN(t, testserver.Mongo)
	for name, spoil := range map[string]func(t *testing.T, db *mongo.Database){
		"nothing there": func(t *testing.T, db *mongo.Database) {
			if err := db.Drop(t.Context()); err != nil {
				t.Fatal(err)
			}
		},
		"no index": func(t *testing.T, db *mongo.Database) {
			if err := db.Collection("locks").Indexes().DropOne(t.Context(), schema.NameIndex); err != nil {
				t.Fatal(err)
			}
		},
		"no fence": func(t *testing.T, db *mongo.Database) {
			if err := db.Collection("locks_fence").Drop(t.Context()); err != nil {
				t.Fatal(err)
			}
		},
		"newer layout": func(t *testing.T, db *mongo.Database) {
			if _, err := db.Collection("locks").UpdateByID(t.Context(), schema.LayoutID, document.Op("$set", document.Op("layout", schema.Layout+1))); err != nil {
				t.Fatal(err)
			}
		},
		"older layout": func(t *testing.T, db *mongo.Database) {
			if _, err := db.Collection("locks").UpdateByID(t.Context(), schema.LayoutID, document.Op("$set", document.Op("layout", schema.Layout-1))); err != nil {
				t.Fatal(err)
			}
		},
		"TTL index": func(t *testing.T, db *mongo.Database) {
			if _, err := db.Collection("locks").Indexes().CreateOne(t.Context(),
				mongo.IndexModel{Keys: document.Op("expiresAt", 1), Options: options.Index().SetExpireAfterSeconds(3600)}); err != nil {
				t.Fatal(err)
			}
		},
		"validator": func(t *testing.T, db *mongo.Database) {
			if err := db.RunCommand(t.Context(), bson.D{{Key: "collMod", Value: "locks"}, {Key: "validator", Value: document.Op("x", 1)}}).Err(); err != nil {
				t.Fatal(err)
			}
		},
		"capped": func(t *testing.T, db *mongo.Database) {
			if err := db.RunCommand(t.Context(), bson.D{{Key: "convertToCapped", Value: "locks"}, {Key: "size", Value: 1 << 20}}).Err(); err != nil {
				t.Fatal(err)
			}
			if _, err := db.Collection("locks").Indexes().CreateOne(t.Context(), mongo.IndexModel{Keys: document.Op("name", 1)}); err != nil {
				t.Fatal(err)
			}
		},
		"view": func(t *testing.T, db *mongo.Database) {
			if err := db.Collection("locks").Drop(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := db.CreateView(t.Context(), "locks", "locks_runs", mongo.Pipeline{}); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := database(t, uri)
			open(t, db, Options{})
			spoil(t, db)
			s, err := New(db.Collection("locks"), Options{})
			if err != nil {
				t.Fatal(err)
			}
			_, err = s.Acquire(t.Context(), []driver.Request{request("k")})
			mustErr(t, err, driver.ErrSchema, true)
			if !driver.IsNotApplied(err) {
				t.Errorf("%v: want proof that nothing was applied", err)
			}
			t.Log(err)
			switch name {
			case "nothing there", "no index", "no fence": // the same Store goes on after Migrate
				if err := s.Migrate(t.Context()); err != nil {
					t.Fatal(err)
				}
				granted(t, s, request("k"))
			}
		})
	}
}

// Whatever the handle says, the Store asks for the majority and reads the primary;
// a client-wide Timeout does not reach its commands; a collation does no harm.
func TestHandleWithOptionsOfItsOwn(t *testing.T) {
	t.Parallel()
	db := database(t, testserver.DSN(t, testserver.Mongo), options.Client().SetTimeout(5*time.Second).SetRetryWrites(false))
	err := db.CreateCollection(t.Context(), "locks", options.CreateCollection().SetCollation(&options.Collation{Locale: "en", Strength: 1}))
	if err != nil {
		t.Fatal(err)
	}
	coll := db.Collection("locks", options.Collection().SetWriteConcern(writeconcern.Unacknowledged()).SetReadPreference(readpref.Secondary()))
	s, err := New(coll, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	mustAll(t, s, []driver.Request{request("a"), request("A"), request("á"), request("a ")}, driver.Granted)
	granted(t, s, request("aa"))
	list, err := s.List(t.Context(), "a", "", 10)
	if err != nil || len(list) != 3 {
		t.Errorf("List of a: %v, %v", list, err)
	}
}

func TestStandalone(t *testing.T) {
	srv := testserver.Start(t, testserver.MongoStandalone)
	db := database(t, srv.DSN())
	s, err := New(db.Collection("locks"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{"check": s.Check(t.Context()), "migrate": s.Migrate(t.Context())} {
		mustErr(t, err, driver.ErrNotSupported, true)
		if !strings.Contains(err.Error(), "replica set") {
			t.Errorf("%s: %v does not say what to do", name, err)
		}
	}
	s = open(t, db, Options{AllowStandalone: true})
	h := granted(t, s, request("k"))
	if st := renew(t, s, h); st != driver.Alive {
		t.Error(st)
	}
	release(t, s, h)
	last := h.Token
	for range 10 {
		h := granted(t, s, request("k"))
		if h.Token < last+driver.TokenRange {
			locktest.Breach(t, "P3", "token %d after %d", h.Token, last)
		}
		last = h.Token
		if r := release(t, s, h); r.Status != driver.Released {
			t.Error(r)
		}
	}
	mustAll(t, s, requests("b", 5), driver.Granted)
	mustAll(t, s, requests("b", 5), driver.Held)
	if r := release(t, s, undoOf(request("k"))); r.Final {
		t.Errorf("undo: %+v, want not final", r)
	}
	if _, err := s.ForceRelease(t.Context(), "b0"); err != nil {
		t.Error(err)
	}
}

func TestServerGone(t *testing.T) {
	t.Parallel()
	patiently := options.Client().SetServerSelectionTimeout(time.Hour) // what ends before has heard of its context
	s, err := New(connect(t, "mongodb://127.0.0.1:1/?replicaSet=rs0", patiently).Database("db").Collection("locks"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err = s.Acquire(ctx, []driver.Request{request("k")})
	if err == nil || driver.IsLasting(err) || !driver.IsNotApplied(err) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, want a passing error that matches DeadlineExceeded", err)
	}
	client := connect(t, testserver.DSN(t, testserver.Mongo))
	s, _ = New(client.Database("db").Collection("locks"), Options{})
	if err := client.Disconnect(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, err = s.Acquire(t.Context(), []driver.Request{request("k")})
	mustErr(t, err, mongo.ErrClientDisconnected, true)
}

// A user with find, insert, update and remove, and changeStream where the leases are, runs everything but Migrate. Without
// changeStream waiters are not woken, and that is all.
func TestSmallRights(t *testing.T) {
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte("cm93bG9ja3Jvd2xvY2tyb3dsb2Nr"), 0o600); err != nil {
		t.Fatal(err)
	}
	srv := testserver.Start(t, testserver.Mongo, "--auth", "--keyFile", key)
	admin := connect(t, srv.DSN())
	run := func(c *mongo.Client, cmd bson.D) {
		t.Helper()
		if err := c.Database("admin").RunCommand(t.Context(), cmd).Err(); err != nil {
			t.Fatal(err)
		}
	}
	run(admin, bson.D{{Key: "createUser", Value: "root"}, {Key: "pwd", Value: "secret"}, {Key: "roles", Value: bson.A{"root"}}})
	as := func(user, password string) *mongo.Client {
		return connect(t, srv.DSN(), options.Client().SetAuth(options.Credential{Username: user, Password: password, AuthSource: "admin"}))
	}
	root := as("root", "secret")
	privileges, stream := bson.A{}, bson.A{bson.D{
		{Key: "resource", Value: bson.D{{Key: "db", Value: "app"}, {Key: "collection", Value: "locks"}}},
		{Key: "actions", Value: bson.A{"changeStream"}},
	}}
	for _, c := range []string{"locks", "locks_fence", "locks_runs", "locks_tx"} {
		privileges = append(privileges, bson.D{
			{Key: "resource", Value: bson.D{{Key: "db", Value: "app"}, {Key: "collection", Value: c}}},
			{Key: "actions", Value: bson.A{"find", "insert", "update", "remove"}},
		})
	}
	run(root, bson.D{{Key: "createRole", Value: "locker"}, {Key: "privileges", Value: privileges}, {Key: "roles", Value: bson.A{}}})
	run(root, bson.D{{Key: "createRole", Value: "watcher"}, {Key: "privileges", Value: stream}, {Key: "roles", Value: bson.A{}}})
	run(root, bson.D{{Key: "createUser", Value: "app"}, {Key: "pwd", Value: "app"}, {Key: "roles", Value: bson.A{"locker"}}})
	run(root, bson.D{{Key: "createUser", Value: "nobody"}, {Key: "pwd", Value: "nobody"}, {Key: "roles", Value: bson.A{}}})

	open(t, root.Database("app"), Options{})
	s, err := New(as("app", "app").Database("app").Collection("locks"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Check(t.Context()); err != nil {
		t.Errorf("check: %v", err)
	}
	q := request("k")
	q.Guarded = true
	h := granted(t, s, q)
	if st := renew(t, s, h); st != driver.Alive {
		t.Error(st)
	}
	release(t, s, h)
	mustAll(t, s, requests("b", 5), driver.Granted)
	if _, err := s.ForceRelease(t.Context(), "k"); err != nil {
		t.Error(err)
	}
	if _, err := s.List(t.Context(), "", "", 10); err != nil {
		t.Error(err)
	}
	err = s.Watch(t.Context(), func() {}, func(string) {})
	if !driver.IsLasting(err) || !strings.Contains(err.Error(), "the user needs find and changeStream on locks of database app") {
		t.Errorf("watch without the right: %v", err)
	}
	run(root, bson.D{{Key: "grantRolesToUser", Value: "app"}, {Key: "roles", Value: bson.A{"watcher"}}})
	ctx, cancel := context.WithCancel(t.Context())
	ready := false
	if err := s.Watch(ctx, func() { ready = true; cancel() }, func(string) {}); !ready {
		t.Errorf("watch: %v", err)
	}
	writeDead(t, s, "d", 3)
	if n, err := s.Reap(t.Context(), time.Hour); err != nil || n != 3 {
		t.Error(n, err)
	}
	if err := s.Migrate(t.Context()); err == nil || !driver.IsLasting(err) {
		t.Errorf("migrate without the right: %v", err)
	} else {
		t.Log(err)
	}
	for _, c := range []struct{ user, password string }{{"nobody", "nobody"}, {"app", "wrong"}} {
		s, err := New(as(c.user, c.password).Database("app").Collection("locks"), Options{})
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.Acquire(t.Context(), []driver.Request{request("k")})
		if !driver.IsLasting(err) || !driver.IsNotApplied(err) {
			t.Errorf("%s with password %s: %v, want a lasting error", c.user, c.password, err)
		}
		t.Log(err)
	}
}

// Connections follow the calls that run at once, not the leases.
func TestP11_Connections(t *testing.T) {
	testserver.Long(t)
	t.Parallel()
	uri := testserver.DSN(t, testserver.Mongo)
	name := "rowlock-p11-" + newID().String()
	s := open(t, database(t, uri, options.Client().SetAppName(name)), Options{})
	var holds []driver.Hold
	for n := range 4 {
		holds = append(holds, grantedAll(t, s, requests(strings.Repeat("x", n+1), maxBatch))...)
	}
	for n := range 4 {
		if _, err := s.Renew(t.Context(), holds[n*maxBatch:(n+1)*maxBatch]); err != nil {
			t.Fatal(err)
		}
	}
	// The driver has two connections more, to watch the server, and dials two at a time.
	if n, most := connections(t, connect(t, uri), name), documentedConns+4; n > most {
		t.Errorf("P11: %d connections for %d leases, at most %d allowed", n, len(holds), most)
	}
}

// connections counts those of the client with an application name, on the server.
func connections(t testing.TB, c *mongo.Client, app string) int {
	t.Helper()
	cursor, err := c.Database("admin").Aggregate(context.Background(), mongo.Pipeline{
		{{Key: "$currentOp", Value: bson.D{{Key: "allUsers", Value: true}, {Key: "idleConnections", Value: true}}}},
		{{Key: "$match", Value: bson.D{{Key: "appName", Value: app}, {Key: "connectionId", Value: document.Op("$exists", true)}}}},
		{{Key: "$group", Value: document.Op("_id", "$connectionId")}},
	})
	if err != nil {
		t.Fatal(err)
	}
	var docs []bson.Raw
	if err := cursor.All(context.Background(), &docs); err != nil {
		t.Fatal(err)
	}
	return len(docs)
}

// The strict stable API refuses killSessions: Check says what that costs, and the Store
// works.
func TestCheckSaysThatNoSessionCanBeEnded(t *testing.T) {
	t.Parallel()
	strict := options.Client().SetServerAPIOptions(options.ServerAPI(options.ServerAPIVersion1).SetStrict(true))
	s := open(t, database(t, testserver.DSN(t, testserver.Mongo), strict), Options{})
	for range 2 { // the first use between them
		err := s.Check(t.Context())
		mustErr(t, err, driver.ErrNotSupported, true)
		for _, word := range []string{"killSessions", "InTx", "strict"} {
			if err != nil && !strings.Contains(err.Error(), word) {
				t.Errorf("Check: %v, want a word of %s", err, word)
			}
		}
		lease := guarded(t, locker(t, s, rowlock.Options{}), "k")
		must(t, s.InTx(t.Context(), lease, func(ctx context.Context) error { return add(ctx, s, "k") }))
		must(t, lease.Release(t.Context()))
	}
	must(t, shared(t).Check(t.Context()))
}
