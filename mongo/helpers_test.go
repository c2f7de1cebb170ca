package mongolock

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/testserver"
	"github.com/rowlock/rowlock/mongo/internal/command"
	"github.com/rowlock/rowlock/mongo/internal/document"
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

// patient bounds what a test waits for: only something wrong takes so long.
func patient(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), testserver.Patience(t))
	t.Cleanup(cancel)
	return ctx
}

func newID() (id driver.HoldID) {
	rand.Read(id[:])
	return id
}

func request(key string) driver.Request {
	return driver.Request{Key: key, ID: newID(), Owner: "test", TTL: time.Minute}
}

func holdOf(q driver.Request, r driver.Result) driver.Hold {
	return driver.Hold{Key: q.Key, ID: q.ID, Token: r.Token, Stored: r.Stored, TTL: q.TTL, Keep: q.Keep, Guarded: q.Guarded,
		Mode: q.Mode, Slot: r.Slot, Phase: r.Phase}
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

// settled repeats a step of many holds until each of them has an answer.
func settled(t testing.TB, step func() ([]driver.Result, error)) (results []driver.Result) {
	t.Helper()
	for end := time.Now().Add(testserver.Patience(t)); ; {
		results, err := patiently(step)
		must(t, err)
		if !slices.ContainsFunc(results, late) || time.Now().After(end) {
			return results
		}
	}
}

func acquire(t testing.TB, s *Store, q driver.Request) driver.Result {
	t.Helper()
	results, err := patiently(func() ([]driver.Result, error) { return s.Acquire(patient(t), []driver.Request{q}) })
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
	results, err := patiently(func() ([]driver.Result, error) { return s.Renew(patient(t), []driver.Hold{h}) })
	if err != nil {
		t.Fatalf("renew %q: %v", h.Key, err)
	}
	return results[0].Status
}

func release(t testing.TB, s *Store, h driver.Hold) driver.Result {
	t.Helper()
	results, err := patiently(func() ([]driver.Result, error) { return s.Release(patient(t), []driver.Hold{h}) })
	if err != nil {
		t.Fatalf("release %q: %v", h.Key, err)
	}
	return results[0]
}

func inspect(t testing.TB, s *Store, key string) driver.Info {
	t.Helper()
	infos, err := patiently(func() ([]driver.Info, error) { return s.Inspect(patient(t), []string{key}) })
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
	ctx, cancel := context.WithTimeout(t.Context(), testserver.Patience(t))
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

// age moves the death of a key into the past.
func age(t testing.TB, s *Store, key string, by time.Duration) {
	t.Helper()
	_, err := s.db.Collection(s.leases).UpdateByID(t.Context(), document.KeyID(key), bson.A{document.Op("$set", bson.D{
		{Key: "expiresAt", Value: document.Op("$subtract", bson.A{"$expiresAt", document.Millis(by)})},
	})})
	if err != nil {
		t.Fatal(err)
	}
}

// writeDead writes the documents of n keys that died long ago.
func writeDead(t testing.TB, s *Store, prefix string, n int) {
	t.Helper()
	long := time.Now().Add(-10 * 365 * 24 * time.Hour)
	docs := make([]any, n)
	for i := range docs {
		key := fmt.Sprint(prefix, i)
		docs[i] = bson.D{
			{Key: "_id", Value: document.KeyID(key)}, {Key: "name", Value: key}, {Key: "owner", Value: "gone"},
			{Key: "token", Value: int64(driver.TokenRange)}, {Key: "acquiredAt", Value: long}, {Key: "expiresAt", Value: long},
		}
	}
	if _, err := s.db.Collection(s.leases).InsertMany(context.Background(), docs); err != nil {
		t.Fatal(err)
	}
}

func requests(prefix string, n int) []driver.Request {
	reqs := make([]driver.Request, n)
	for i := range reqs {
		reqs[i] = request(fmt.Sprint(prefix, i))
	}
	return reqs
}

// mustAll acquires. A loaded server may not finish in time, so a key that is unknown for
// that is asked for again.
func mustAll(t *testing.T, s *Store, reqs []driver.Request, want driver.Status) []driver.Result {
	t.Helper()
	var results []driver.Result
	for try := 0; ; try++ {
		var err error
		if results, err = s.Acquire(t.Context(), reqs); err != nil {
			t.Fatal(err)
		}
		if try == 20 || !slices.ContainsFunc(results, late) {
			break
		}
	}
	for i, r := range results {
		if r.Status != want {
			t.Fatalf("%q: %v (%v), want %v", reqs[i].Key, r.Status, r.Err, want)
		}
	}
	return results
}

// late reports whether a loaded server did not finish a step in time.
func late(r driver.Result) bool {
	return r.Status == driver.Unknown && (driver.IsNotApplied(r.Err) || driver.IsSilent(r.Err) || noTime(r.Err))
}

func grantedAll(t *testing.T, s *Store, reqs []driver.Request) []driver.Hold {
	t.Helper()
	holds := make([]driver.Hold, len(reqs))
	for i, r := range mustAll(t, s, reqs, driver.Granted) {
		holds[i] = holdOf(reqs[i], r)
	}
	return holds
}

// freed makes keys that are free and have a document.
func freed(t *testing.T, s *Store, reqs []driver.Request) {
	t.Helper()
	for _, h := range grantedAll(t, s, reqs) {
		release(t, s, h)
	}
}

func undoOf(q driver.Request) driver.Hold {
	return driver.Hold{Key: q.Key, ID: q.ID, TTL: q.TTL, Keep: q.Keep, Undo: true}
}

// failCommand makes the next command of a client with this name fail in a way.
func failCommand(t testing.TB, s *Store, app, command string, how ...bson.E) {
	t.Helper()
	data := append(bson.D{{Key: "failCommands", Value: bson.A{command}}, {Key: "appName", Value: app}}, how...)
	set := func(mode any) error {
		return s.db.Client().Database("admin").RunCommand(context.Background(),
			bson.D{{Key: "configureFailPoint", Value: "failCommand"}, {Key: "mode", Value: mode}, {Key: "data", Value: data}}).Err()
	}
	if err := set(bson.D{{Key: "times", Value: 1}}); err != nil {
		t.Skipf("the server has no fail points: %v", err)
	}
}

// refused asks for a key that is held. A busy server that does not come to it is asked again.
func refused(t testing.TB, s *Store, key string) {
	t.Helper()
	if r := acquire(t, s, request(key)); r.Status != driver.Held || r.Left <= 0 {
		t.Fatalf("acquire %q: %+v, want held", key, r)
	}
}

// noTime: the server did not finish a command in time, as it happens on a machine under
// load, whatever that proves.
func noTime(err error) bool {
	return command.Code(err) == command.CodeMaxTimeMSExpired
}

// watching opens a stream and returns what it says, once it misses nothing.
func watching(t *testing.T, s *Store) (<-chan string, func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	changed, ready, ended := make(chan string, 1000), make(chan struct{}), make(chan error, 1)
	go func() { ended <- s.Watch(ctx, func() { close(ready) }, func(key string) { changed <- key }) }()
	select {
	case <-ready:
	case err := <-ended:
		t.Fatal(err)
	}
	return changed, func() error { cancel(); return <-ended }
}

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

// inFlight counts the commands of a client that have no answer yet, and the most that
// there were. Questions to a busy server (internal/command) are not counted.
type inFlight struct {
	mu        sync.Mutex
	now, most int
}

func (f *inFlight) add(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now += n
	f.most = max(f.most, f.now)
}

// none reports whether there are none now.
func (f *inFlight) none() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now == 0
}

func (f *inFlight) monitor() *event.CommandMonitor {
	add := func(n int, command string) {
		if command != "ping" {
			f.add(n)
		}
	}
	return &event.CommandMonitor{
		Started:   func(_ context.Context, e *event.CommandStartedEvent) { add(1, e.CommandName) },
		Succeeded: func(_ context.Context, e *event.CommandSucceededEvent) { add(-1, e.CommandName) },
		Failed:    func(_ context.Context, e *event.CommandFailedEvent) { add(-1, e.CommandName) },
	}
}
