package mongolock

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/testserver"
	"github.com/rowlock/rowlock/locktest"
	"github.com/rowlock/rowlock/mongo/internal/document"
)

// trio is a replica set of three nodes in which an election takes place when a test
// says so, and not before: what the primary acknowledges alone until then, by w:1, is
// there for its readers and will never have been.
type trio struct {
	srv     *testserver.Server
	members []*mongo.Client // each by itself
	primary int
	down    []int
}

func newTrio(t *testing.T) *trio {
	testserver.Long(t)
	t.Helper()
	srv := testserver.Start(t, testserver.Mongo3)
	u, err := url.Parse(srv.DSN())
	must(t, err)
	x := &trio{srv: srv, primary: -1}
	for i, addr := range strings.Split(u.Host, ",") {
		c := connect(t, "mongodb://"+addr+"/?directConnection=true")
		x.members = append(x.members, c)
		if writable(t.Context(), c) {
			x.primary = i
		}
	}
	if x.primary < 0 {
		t.Fatal("no primary")
	}
	// A primary that hears nobody steps down after this time, and nobody stands for
	// election before it is over.
	var reply struct{ Config bson.M }
	admin := x.members[x.primary].Database("admin")
	must(t, admin.RunCommand(t.Context(), document.Op("replSetGetConfig", 1)).Decode(&reply))
	set := reply.Config
	set["version"] = set["version"].(int32) + 1
	settings := bson.M{}
	for _, e := range set["settings"].(bson.D) {
		settings[e.Key] = e.Value
	}
	settings["electionTimeoutMillis"] = int32(10 * time.Minute / time.Millisecond)
	set["settings"] = settings
	must(t, admin.RunCommand(t.Context(), document.Op("replSetReconfig", set)).Err())
	return x
}

func writable(ctx context.Context, c *mongo.Client) bool {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	var hello struct {
		Writable bool `bson:"isWritablePrimary"`
	}
	return c.Database("admin").RunCommand(ctx, document.Op("hello", 1)).Decode(&hello) == nil && hello.Writable
}

func (x *trio) others() []int {
	return slices.DeleteFunc([]int{0, 1, 2}, func(i int) bool { return i == x.primary })
}

// alone leaves the primary without a majority, which it does not notice. Nodes that are
// only paused would find in their sockets what it has sent meanwhile.
func (x *trio) alone() {
	x.down = x.others()
	x.srv.Kill(x.down...)
}

// elect ends the primary and makes one of the others the next. What only the old one
// had is gone.
func (x *trio) elect(t *testing.T) {
	t.Helper()
	x.srv.Kill(x.primary)
	ctx, cancel := context.WithTimeout(t.Context(), testserver.Patience(t))
	defer cancel()
	next := make(chan int, 1)
	go func() {
		defer close(next)
		for ctx.Err() == nil {
			for _, i := range x.others() {
				// One that has less than the other is not elected.
				_ = x.members[i].Database("admin").RunCommand(ctx, document.Op("replSetStepUp", 1)).Err()
				if writable(ctx, x.members[i]) {
					next <- i
					return
				}
			}
		}
	}()
	for _, i := range x.down {
		x.srv.Restart(i)
	}
	i, elected := <-next
	if !elected {
		t.Fatal("no primary was elected")
	}
	x.primary = i
}

// long outlasts a test, so that no lease ends for want of a renewal.
var long = rowlock.Options{TTL: 10 * time.Minute}

// soon bounds a call that cannot succeed while the primary is alone.
func soon(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// What was acknowledged before an election is there after it: a grant and its token, a
// guarded commit, the mark of a run. And the lease goes on.
func TestP1_AcknowledgedBeforeAnElection(t *testing.T) {
	t.Parallel()
	x := newTrio(t)
	s := open(t, database(t, x.srv.DSN()), Options{})
	a, b := locker(t, s, long), locker(t, s, long)
	lease := guarded(t, a, "k")
	must(t, s.InTx(t.Context(), lease, func(ctx context.Context) error { return add(ctx, s, "k") }))
	once := func() error {
		return s.Once(t.Context(), lease, "run", func(ctx context.Context) error { return add(ctx, s, "k") })
	}
	must(t, once())

	x.elect(t)
	must(t, lease.Renew(t.Context()))
	if _, err := b.TryAcquire(t.Context(), "k"); !errors.Is(err, rowlock.ErrHeld) {
		t.Errorf("P1: acquire of a key that was granted before an election: %v", err)
	}
	wants(t, "P13: a run that was marked before an election", once(), rowlock.ErrAlreadyRan)
	if n := number(t, s, "k"); n != 2 {
		t.Errorf("P13: %d of 2 commits are there after an election", n)
	}
	must(t, lease.Release(t.Context()))
	if next := guarded(t, b, "k"); next.Token() < lease.Token()+driver.TokenRange {
		locktest.Breach(t, "P3", "token %d after %d", next.Token(), lease.Token())
	}
}

// The primary takes a commit, and nobody else ever hears of it. Whoever is told nil
// finds the commit after the election; whoever is told that the outcome is not known
// settles it by Once.
func TestP13_CommitThatNoMajorityHas(t *testing.T) {
	t.Parallel()
	x := newTrio(t)
	s := open(t, database(t, x.srv.DSN()), Options{})
	c := locker(t, s, long)
	guards, runs := guarded(t, c, "guards"), guarded(t, c, "runs")
	once := func(ctx context.Context) error {
		return s.Once(ctx, runs, "run", func(ctx context.Context) error { return add(ctx, s, "runs") })
	}
	x.alone()
	var wg sync.WaitGroup
	var inTx, first error
	wg.Go(func() {
		inTx = s.InTx(soon(t), guards, func(ctx context.Context) error { return add(ctx, s, "guards") })
	})
	wg.Go(func() { first = once(soon(t)) })
	wg.Wait()
	x.elect(t)

	n := number(t, s, "guards")
	if inTx == nil && n != 1 {
		t.Errorf("P4: a commit that was acknowledged is not there after an election")
	}
	wants(t, "P4: InTx without a majority", inTx, rowlock.ErrUnknownOutcome)
	if n := number(t, s, "runs"); first == nil && n != 1 {
		t.Errorf("P13: the effects of a run that was acknowledged are not there after an election")
	}
	wants(t, "P13: Once without a majority", first, rowlock.ErrUnknownOutcome)
	if err := once(t.Context()); err != nil && !errors.Is(err, rowlock.ErrAlreadyRan) {
		t.Errorf("P13: Once after the election: %v", err)
	}
	if n := number(t, s, "runs"); n != 1 {
		t.Errorf("P13: the effects of a run are there %d times", n)
	}
}

// A mark that only the primary has, by a transaction of the caller's with w:1, is not
// told as committed: it goes with the next election, and the effects with it.
func TestP13_MarkThatNoMajorityHas(t *testing.T) {
	t.Parallel()
	x := newTrio(t)
	s := open(t, database(t, x.srv.DSN()), Options{})
	lease := guarded(t, locker(t, s, long), "k")
	once := func(ctx context.Context) error {
		return s.Once(ctx, lease, "run", func(ctx context.Context) error { return add(ctx, s, "k") })
	}
	x.alone()
	sess, err := s.db.Client().StartSession()
	must(t, err)
	defer sess.EndSession(context.Background())
	must(t, sess.StartTransaction(options.Transaction().SetWriteConcern(writeconcern.W1())))
	ctx := mongo.NewSessionContext(t.Context(), sess)
	must(t, s.MarkRun(ctx, lease, "run"))
	must(t, add(ctx, s, "k"))
	must(t, sess.CommitTransaction(ctx))

	if err := once(soon(t)); err == nil || errors.Is(err, rowlock.ErrAlreadyRan) {
		t.Errorf("P13: Once behind a mark that no majority has: %v, want an error that promises nothing", err)
	}
	x.elect(t)
	must(t, once(t.Context()))
	if n := number(t, s, "k"); n != 1 {
		t.Errorf("P13: the effects of a run are there %d times after an election", n)
	}
}

// Between a renewal and the look at what became of a hold that it did not find, the
// primary is left alone and another's takeover is written there, which goes with the
// election. The renewal tells of none: the hold lives.
func TestP2_FateThatNoMajorityHas(t *testing.T) {
	t.Parallel()
	x := newTrio(t)
	var mu sync.Mutex
	var atFind func()
	monitor := &event.CommandMonitor{Started: func(_ context.Context, e *event.CommandStartedEvent) {
		mu.Lock()
		defer mu.Unlock()
		if from, _ := e.Command.Lookup("find").StringValueOK(); from == "locks" && atFind != nil {
			atFind()
			atFind = nil
		}
	}}
	s := open(t, database(t, x.srv.DSN(), options.Client().SetMonitor(monitor)), Options{})
	var holds []driver.Hold
	for _, key := range []string{"gone", "kept"} {
		q := request(key)
		q.TTL = long.TTL
		holds = append(holds, granted(t, s, q))
	}
	release(t, s, holds[0])
	alone := x.members[x.primary].Database(s.db.Name()).Collection(s.leases, options.Collection().SetWriteConcern(writeconcern.W1()))
	mu.Lock()
	atFind = func() {
		x.alone()
		_, err := alone.UpdateOne(context.Background(), document.ByKey("kept"),
			document.Op("$set", bson.D{{Key: "hold", Value: document.HoldID(newID())}, {Key: "token", Value: document.Above(holds[1].Stored)}}))
		if err != nil {
			t.Error(err)
		}
	}
	mu.Unlock()
	results, err := s.Renew(t.Context(), holds)
	must(t, err)
	if got := results[1].Status; got != driver.Alive {
		t.Errorf("P2: a hold that the majority has is told %v", got)
	}
	x.elect(t)
	if got := renew(t, s, holds[1]); got != driver.Alive {
		t.Errorf("the hold is %v after the election: this test shows nothing", got)
	}
}

// Readers through an election: one that was acknowledged goes on, and one whose reply was lost is
// undone for good, whether the majority had it or only the primary that is gone.
func TestP7_ReaderWhoseReplyIsLostInAnElection(t *testing.T) {
	t.Parallel()
	x := newTrio(t)
	s := open(t, database(t, x.srv.DSN()), Options{})
	reader := func() driver.Request {
		q := readerOf("k")
		q.TTL = long.TTL
		return q
	}
	kept := granted(t, s, reader())
	lost := reader()
	sess, err := s.sessions.Get()
	must(t, err)
	_, err = s.cmd.Write(t.Context(), sess, document.TakeOne(s.leases, lost, false), time.Minute)
	must(t, err)
	s.sessions.AddUnanswered(sess, lost.ID)
	x.alone()
	alone := reader()
	if results, err := s.Acquire(soon(t), []driver.Request{alone}); err == nil {
		t.Errorf("P7: a reader that no majority has: %+v", results)
	}
	x.elect(t)

	if st := renew(t, s, kept); st != driver.Alive {
		t.Errorf("P18: a reader that was granted before an election: %v", st)
	}
	for _, q := range []driver.Request{lost, alone} {
		h := undoOf(q)
		h.Mode = q.Mode
		if r := release(t, s, h); !r.Final {
			t.Errorf("P7: the undo of a reader whose reply was lost: %+v", r)
		}
	}
	if i := inspect(t, s, "k"); i.Readers != 1 {
		t.Errorf("P7: %+v, want the reader that was acknowledged alone", i)
	}
	denied(t, s, request("k"))
	release(t, s, kept)
	if w := granted(t, s, request("k")); w.Token < kept.Token+driver.TokenRange {
		locktest.Breach(t, "P20", "token %d after %d", w.Token, kept.Token)
	}
}
