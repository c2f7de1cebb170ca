package mongolock

import (
	"context"
	"strings"
	"sync"
	"testing"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/testserver"
	"github.com/rowlock/rowlock/locktest"
	"github.com/rowlock/rowlock/mongo/internal/document"
)

func TestMain(m *testing.M) {
	testserver.Parallel(6)
	testserver.Examples(testserver.Mongo)
	locktest.Main(m, openChild)
}

// openChild opens the Store of a child process, of which the end of the process
// is the end.
func openChild(config string) (driver.Store, error) {
	uri, db, _ := strings.Cut(config, " ")
	client, err := mongo.Connect(options.Client().ApplyURI(uri))
	if err != nil {
		return nil, err
	}
	return New(client.Database(db).Collection("locks"), Options{})
}

// harness is the lock space of one database on the server of uri.
type harness struct {
	uri string
	db  *mongo.Database

	mu   sync.Mutex
	apps map[driver.Store]string
}

func newHarness(t testing.TB, uri string) *harness {
	h := &harness{uri: uri, db: database(t, uri), apps: make(map[driver.Store]string)}
	open(t, h.db, Options{})
	return h
}

func (h *harness) open(t testing.TB) driver.Store {
	t.Helper()
	app := "rowlock-" + newID().String()
	client := connect(t, h.uri, options.Client().SetAppName(app).SetMaxPoolSize(0))
	s, err := New(client.Database(h.db.Name()).Collection("locks"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	h.mu.Lock()
	defer h.mu.Unlock()
	h.apps[s] = app
	return s
}

// block pins the key as a guarded transaction of an old holder does.
func (h *harness) block(t testing.TB, key string) func() {
	t.Helper()
	var doc struct{ Token int64 }
	err := h.db.Collection("locks").FindOneAndUpdate(context.Background(), document.ByKey(key), document.Op("$set", document.Op("fenced", true))).Decode(&doc)
	if err != nil {
		t.Fatal(err)
	}
	fences := h.db.Collection("locks_fence")
	if _, err := fences.UpdateByID(context.Background(), document.KeyID(key), document.Op("$set", document.Op("token", doc.Token)), options.UpdateOne().SetUpsert(true)); err != nil {
		t.Fatal(err)
	}
	return blockDocument(t, fences, document.KeyID(key))
}

// ownServer is a server with the verbs of the suite.
type ownServer struct{ s *testserver.Server }

func (o ownServer) Pause()   { o.s.Pause() }
func (o ownServer) Resume()  { o.s.Resume() }
func (o ownServer) Kill()    { o.s.Kill() }
func (o ownServer) Restart() { o.s.Restart() }

func conformance(t testing.TB) locktest.Harness {
	return harnessAt(t, testserver.DSN(t, testserver.Mongo))
}

// harnessAt is for a database of its own on the server at uri.
func harnessAt(t testing.TB, uri string) locktest.Harness { return harnessOf(t, newHarness(t, uri)) }

func harnessOf(t testing.TB, h *harness) locktest.Harness {
	uri := h.uri
	watch := connect(t, uri)
	return locktest.Harness{
		Open:   h.open,
		Config: uri + " " + h.db.Name(),
		Server: func(t testing.TB) (locktest.Server, func(testing.TB) driver.Store) {
			srv := testserver.Start(t, testserver.Mongo)
			own := newHarness(t, srv.DSN())
			return ownServer{srv}, own.open
		},
		Block: h.block,
		Guard: func(t testing.TB, store driver.Store, lease *rowlock.Lease) (func() error, error) {
			s := store.(*Store)
			sess, ctx := begin(t, s)
			if err := s.Guard(ctx, lease); err != nil {
				_ = sess.AbortTransaction(ctx)
				return nil, err
			}
			return func() error { return sess.CommitTransaction(ctx) }, nil
		},
		Connections: func(t testing.TB, s driver.Store) int {
			h.mu.Lock()
			app := h.apps[s]
			h.mu.Unlock()
			return connections(t, watch, app)
		},
		InTx: func(ctx context.Context, s driver.Store, fn func(context.Context) error, leases ...*rowlock.Lease) error {
			return s.(*Store).InTx(ctx, leases[0], fn, leases[1:]...)
		},
		// The pool has no bound. The driver has two more connections for each server, to
		// watch it, and dials two at a time for commands that then get another.
		MaxConnections: func(held, waited int) int { return documentedConns + 2 + 2 },
		Dead: func(t testing.TB, prefix string, n int) {
			s, err := New(h.db.Collection("locks"), Options{})
			if err != nil {
				t.Fatal(err)
			}
			writeDead(t, s, prefix, n)
		},
	}
}

func TestConformance(t *testing.T) { locktest.Run(t, conformance(t)) }
