package fault

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"

	"github.com/rowlock/rowlock/dev/testenv"
	"github.com/rowlock/rowlock/dev/verify/timed"
	"github.com/rowlock/rowlock/internal/testserver"
)

// lab is a server of one kind that the tests use one after the other, and a program
// behind its proxy. Each fault leaves it whole.
type lab struct {
	*Env
	busy   sync.Mutex
	start  sync.Once
	err    error
	db     *sql.DB           // through the proxy
	coll   *mongo.Collection // through the proxy
	direct *mongo.Collection
	last   atomic.Int64

	onFailure func(op) // called by the worker whose insert failed; may be nil
}

// Of the clusters of MySQL and MariaDB the quickest.
var labs = map[testenv.Kind]*lab{testenv.MySQL: {}, testenv.MariaDB: {}, testenv.Mongo: {}, testenv.Mongo3: {}, testenv.MySQLSemiSync: {}}

// The tests wait rather than compute: those of different servers all run at once.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "200"); err != nil {
		panic(err)
	}
	code := m.Run()
	for _, l := range labs {
		l.close()
	}
	os.Exit(code)
}

// each runs a test of a fault on every kind that it is for.
func each(t *testing.T, name string, test func(t *testing.T, l *lab, f Fault)) {
	testserver.Long(t)
	i := slices.IndexFunc(All(), func(f Fault) bool { return f.Name == name })
	if i < 0 {
		t.Fatalf("no fault %s", name)
	}
	f := All()[i]
	t.Parallel()
	for _, kind := range f.Kinds {
		if kind.Clustered() && (labs[kind] == nil || slices.Contains(f.Kinds, testenv.MySQL)) {
			continue
		}
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			l := labs[kind]
			l.busy.Lock()
			defer l.busy.Unlock()
			l.start.Do(func() { l.err = l.open(kind) })
			if errors.Is(l.err, testenv.ErrUnavailable) && os.Getenv("ROWLOCK_TEST_MUST_RUN") == "" {
				t.Skip("no server, run `make test`: ", l.err)
			}
			must(t, l.err)
			l.Clients, l.Reap = nil, nil
			test(t, l, f)
			l.whole(t)
		})
	}
}

func (l *lab) open(kind testenv.Kind) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if l.Env, err = NewEnv(ctx, kind, 1, 1); err != nil {
		return err
	}
	l.TTL = time.Second
	if isMongo(kind) {
		l.Spaces = []Space{{Name: "mongo", Tables: []string{"hot"}, Keys: []string{"a", "b", "c"}}}
		client, err := mongo.Connect(options.Client().ApplyURI(l.Proxies[0].DSN()).SetDialer(Dialer(l.Proxies[0].Addrs())).
			SetWriteConcern(writeconcern.Majority()).SetRetryWrites(false))
		if err != nil {
			return err
		}
		l.coll = client.Database("fault").Collection("ops")
		l.direct = l.Mongo.Database("fault").Collection("ops")
		docs := l.Mongo.Database("test").Collection("hot", options.Collection().SetWriteConcern(writeconcern.Majority()))
		for _, key := range l.Spaces[0].Keys {
			_, e := docs.InsertOne(ctx, bson.M{"_id": bson.Binary{Data: []byte(key)}, "n": 0})
			err = errors.Join(err, e)
		}
		return err
	}
	l.Spaces = []Space{{Name: "version", Tables: []string{"hot"}, Keys: []string{"a", "b", "c"}}}
	if l.db, err = openSQL(l.Proxies[0].DSN()); err != nil {
		return err
	}
	for _, text := range []string{"CREATE DATABASE fault", "CREATE TABLE fault.ops (id BIGINT PRIMARY KEY)",
		"CREATE TABLE hot (name VARBINARY(255) PRIMARY KEY, n INT NOT NULL DEFAULT 0)", "INSERT INTO hot (name) VALUES ('a'), ('b'), ('c')"} {
		if _, err := l.DB.ExecContext(ctx, text); err != nil {
			return err
		}
	}
	return nil
}

func (l *lab) close() {
	if l.Env == nil {
		return
	}
	if l.db != nil {
		_ = l.db.Close()
	}
	if l.coll != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		_ = l.coll.Database().Client().Disconnect(ctx)
		cancel()
	}
	_ = l.Env.Close()
}

// op is one insert through the proxy.
type op struct {
	id         int64
	begin, end time.Time
	err        error
}

func (o op) took() time.Duration { return o.end.Sub(o.begin) }

func (l *lab) insert(ctx context.Context, patience time.Duration) op {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	o := op{id: l.last.Add(1), begin: time.Now()}
	if l.db != nil {
		_, o.err = l.db.ExecContext(ctx, fmt.Sprintf("INSERT INTO fault.ops VALUES (%d)", o.id))
	} else {
		_, o.err = l.coll.InsertOne(ctx, bson.M{"_id": o.id})
	}
	o.end = time.Now()
	return o
}

// applied reports whether an insert was executed, whatever came back of it.
func (l *lab) applied(t *testing.T, o op) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	var n int64
	var err error
	if l.db != nil {
		err = l.DB.QueryRowContext(ctx, "SELECT COUNT(*) FROM fault.ops WHERE id=?", o.id).Scan(&n)
	} else {
		n, err = l.direct.CountDocuments(ctx, bson.M{"_id": o.id})
	}
	must(t, err)
	return n > 0
}

// during injects the fault while four workers insert through the proxy, and checks
// that it heals.
func (l *lab) during(t *testing.T, f Fault) (what string, ops []op) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var mu sync.Mutex
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for ctx.Err() == nil {
				o := l.insert(context.WithoutCancel(ctx), l.TTL)
				if o.err != nil && l.onFailure != nil {
					l.onFailure(o)
				}
				mu.Lock()
				ops = append(ops, o)
				mu.Unlock()
				timed.Rest(ctx, 5*time.Millisecond)
			}
		})
	}
	begin := time.Now()
	timed.Rest(ctx, 20*time.Millisecond)
	what, err := f.Inject(ctx, l.Env)
	t.Logf("%v: %s", time.Since(begin).Round(time.Millisecond), what)
	must(t, err)
	stop()
	all.Wait()
	l.whole(t)
	return what, ops
}

// until repeats the fault until the operations have shown its effect.
func (l *lab) until(t *testing.T, f Fault, shown func(what string, ops []op) bool) {
	t.Helper()
	for range 10 {
		if shown(l.during(t, f)) {
			return
		}
	}
	t.Errorf("%s shows nothing", f.Name)
}

// whole wants the server and the proxy to work.
func (l *lab) whole(t *testing.T) {
	t.Helper()
	var o op
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if o = l.insert(t.Context(), 2*time.Second); o.err == nil {
			break
		}
	}
	if o.err != nil {
		t.Fatalf("not whole again: %v", o.err)
	}
	slow, there := 0, o
	for range 5 {
		if o = l.insert(t.Context(), 2*time.Second); o.err != nil || o.took() > time.Second {
			slow++
		}
		if o.err == nil {
			there = o
		}
	}
	if slow > 2 { // the machine may be busy
		t.Errorf("still slow: %v, %v", o.took(), o.err)
	}
	if !l.applied(t, there) {
		t.Error("an insert is not there")
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
