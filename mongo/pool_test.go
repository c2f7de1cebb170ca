package mongolock

import (
	"context"
	"errors"
	"fmt"
	"strings"
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

// documentedConns is what docs/operations.md says: the connections of one Store at a time.
const documentedConns = 13

// With a pool without bound the Store uses as many connections at a time as it says,
// whatever the number of callers and the size of their calls.
func TestP11_ConnectionsAtATime(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	out, most := 0, 0
	monitor := &event.PoolMonitor{Event: func(e *event.PoolEvent) {
		mu.Lock()
		defer mu.Unlock()
		switch e.Type {
		case event.ConnectionCheckedOut:
			out++
			most = max(most, out)
		case event.ConnectionCheckedIn:
			out--
		}
	}}
	uri := testserver.DSN(t, testserver.Mongo)
	s := open(t, database(t, uri, options.Client().SetMaxPoolSize(0).SetPoolMonitor(monitor)), Options{})
	c := locker(t, s, rowlock.Options{})
	var wg sync.WaitGroup
	for n := range 64 {
		wg.Go(func() {
			for i := range 3 {
				lease, err := c.Acquire(t.Context(), fmt.Sprint("c", n, "-", i))
				must(t, err)
				must(t, lease.Release(t.Context()))
			}
		})
		wg.Go(func() {
			_, err := s.Acquire(t.Context(), []driver.Request{request(fmt.Sprint("s", n))})
			must(t, err)
		})
	}
	wg.Go(func() {
		reqs := requests("b", maxBatch)
		for i := range reqs {
			reqs[i].Pinned = true // each goes alone
		}
		results, err := s.Acquire(t.Context(), reqs)
		must(t, err)
		holds := make([]driver.Hold, len(reqs))
		for i, r := range results {
			holds[i] = holdOf(reqs[i], r)
			holds[i].Undo = true
		}
		_, err = s.Release(t.Context(), holds)
		must(t, err)
	})
	wg.Wait()
	mu.Lock()
	defer mu.Unlock()
	t.Logf("at most %d connections at a time", most)
	if most > documentedConns {
		t.Errorf("P11: %d connections at a time, at most %d are documented", most, documentedConns)
	}
}

// A pool that is too small is refused, by Check and by the first use, with both numbers.
func TestSmallPool(t *testing.T) {
	t.Parallel()
	uri := testserver.DSN(t, testserver.Mongo)
	name := shared(t).db.Name()
	for size := 1; size <= command.MinConns+1; size++ {
		s, err := New(connect(t, uri, options.Client().SetMaxPoolSize(uint64(size))).Database(name).Collection("locks"), Options{})
		must(t, err)
		_, used := s.Acquire(t.Context(), []driver.Request{request(fmt.Sprint("k", size))})
		for _, err := range []error{used, s.Check(t.Context()), s.Check(t.Context())} {
			switch both := fmt.Sprintf("%d connections (maxPoolSize), locks need at least %d", size, command.MinConns); {
			case size >= command.MinConns && err != nil:
				t.Errorf("a pool of %d: %v", size, err)
			case size < command.MinConns && (!errors.Is(err, driver.ErrInvalid) || !driver.IsLasting(err) || !strings.Contains(err.Error(), both)):
				t.Errorf("a pool of %d: %v, want a lasting error that names both numbers", size, err)
			}
		}
	}
}

// A caller that gives up a wait for a connection of a pool that other work keeps exhausted is told
// so, whatever he waited with.
func TestPoolUsedUp(t *testing.T) {
	t.Parallel()
	const most = 6
	uri := testserver.DSN(t, testserver.Mongo)
	client := connect(t, uri, options.Client().SetMaxPoolSize(most))
	s, err := New(client.Database(shared(t).db.Name()).Collection("locks"), Options{})
	must(t, err)
	c := locker(t, s, rowlock.Options{})
	lease := guarded(t, c, "k")
	if err := s.Explain(); err != nil {
		t.Errorf("a pool with idle connections: %v", err)
	}

	var hello bson.Raw
	must(t, client.Database("admin").RunCommand(t.Context(), document.Op("hello", 1)).Decode(&hello))
	ctx, free := context.WithCancel(t.Context())
	defer free()
	var others sync.WaitGroup
	for range most { // other work of the program
		others.Go(func() {
			_ = client.Database("admin").RunCommand(ctx, bson.D{{Key: "hello", Value: 1},
				{Key: "topologyVersion", Value: hello.Lookup("topologyVersion")}, {Key: "maxAwaitTimeMS", Value: int64(600_000)}}).Err()
		})
	}
	const busy = "no connection of the pool was free (6 of 6 in use)"
	for try := 0; s.Explain() == nil; try++ {
		if try == 1000 {
			t.Fatal("the pool is not exhausted")
		}
		time.Sleep(10 * time.Millisecond)
	}
	nothing := func(context.Context) error { return nil }
	for what, call := range map[string]func(context.Context) error{
		"TryAcquire":   func(ctx context.Context) error { _, err := c.TryAcquire(ctx, "a"); return err },
		"Acquire":      func(ctx context.Context) error { _, err := c.Acquire(ctx, "b"); return err },
		"Inspect":      func(ctx context.Context) error { _, err := c.Inspect(ctx, "k"); return err },
		"Renew":        lease.Renew,
		"Check":        s.Check,
		"List":         func(ctx context.Context) error { _, err := s.List(ctx, "", "", 10); return err },
		"ForceRelease": func(ctx context.Context) error { _, err := s.ForceRelease(ctx, "nobody's"); return err },
		"InTx":         func(ctx context.Context) error { return s.InTx(ctx, lease, nothing) },
		"Once":         func(ctx context.Context) error { return s.Once(ctx, lease, "run", nothing) },
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		err := call(ctx)
		cancel()
		switch {
		case err == nil || !strings.Contains(err.Error(), busy):
			t.Errorf("%s: %v: does not say %q", what, err, busy)
		case driver.IsLasting(err):
			t.Errorf("%s: %v: lasting", what, err)
		case !errors.Is(err, context.DeadlineExceeded):
			t.Errorf("%s: %v: does not match the context's error", what, err)
		}
	}
	free()
	others.Wait()
	must(t, s.InTx(t.Context(), lease, nothing))
	again, err := c.Acquire(t.Context(), "a")
	must(t, err)
	must(t, again.Release(t.Context()))
}

// A server that does not answer is no exhausted pool.
func TestPoolIsNotToBlame(t *testing.T) {
	t.Parallel()
	p, s, _ := behindProxy(t)
	c := locker(t, s, rowlock.Options{})
	p.keep("findAndModify")
	_, err := c.Acquire(p.untilKept(1), "k")
	if !errors.Is(err, context.DeadlineExceeded) || strings.Contains(err.Error(), "pool") {
		t.Errorf("%v", err)
	}
	p.pass()
	p.letGo()
}

// The change stream outlives the client's Timeout.
func TestWatchWithAShortTimeout(t *testing.T) {
	t.Parallel()
	const timeout = 300 * time.Millisecond
	uri := testserver.DSN(t, testserver.Mongo)
	beside := shared(t)
	s, err := New(connect(t, uri, options.Client().SetTimeout(timeout)).Database(beside.db.Name()).Collection("locks"), Options{})
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ready, freed, ended := make(chan struct{}), make(chan string, 1), make(chan error, 1)
	go func() { ended <- s.Watch(ctx, func() { close(ready) }, func(key string) { freed <- key }) }()
	select {
	case <-ready:
	case err := <-ended:
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		t.Fatalf("the stream ended: %v", err)
	case <-time.After(5 * timeout):
	}
	release(t, beside, granted(t, beside, request("k")))
	select {
	case key := <-freed:
		if key != "k" {
			t.Errorf("%q is free", key)
		}
	case err := <-ended:
		t.Errorf("the stream ended: %v", err)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the stream ended with %v", err)
	}
}

// In the smallest pool a client keeps its leases while it waits for other keys.
func TestP26_PoolOfFour(t *testing.T) {
	testserver.Long(t)
	t.Parallel()
	uri := testserver.DSN(t, testserver.Mongo)
	beside := shared(t)
	s, err := New(connect(t, uri, options.Client().SetMaxPoolSize(command.MinConns)).Database(beside.db.Name()).Collection("locks"), Options{})
	must(t, err)
	c, err := rowlock.New(s, rowlock.Options{TTL: 6 * time.Second})
	must(t, err)
	defer c.Close(context.Background())
	lease, err := c.Acquire(t.Context(), "held")
	must(t, err)
	granted(t, beside, request("other"))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	waited := make(chan error, 1)
	go func() { _, err := c.Acquire(ctx, "other"); waited <- err }()
	for renewed := c.Stats().Renewals; c.Stats().Renewals < renewed+3; {
		select {
		case <-lease.Done():
			t.Fatalf("P26: %v", lease.Err())
		case <-time.After(10 * time.Millisecond):
		}
	}
	cancel()
	if err := <-waited; !errors.Is(err, context.Canceled) {
		t.Errorf("the wait: %v", err)
	}
	must(t, lease.Release(t.Context()))
}

// A batch that a foreign transaction stops at its keys goes on in commands for one key
// each. A pool without a bound takes them all: only the store keeps them few.
func TestP11_BatchInParts(t *testing.T) {
	t.Parallel()
	uri := testserver.DSN(t, testserver.Mongo)
	commands := &inFlight{}
	db := database(t, uri, options.Client().SetMaxPoolSize(0).SetMaxConnecting(10*documentedConns).SetMonitor(commands.monitor()))
	s := open(t, db, Options{})
	holds := grantedAll(t, s, requests("k", 10*documentedConns))

	foreign := connect(t, uri)
	sess, err := foreign.StartSession()
	if err != nil {
		t.Fatal(err)
	}
	defer sess.EndSession(context.Background())
	if err := sess.StartTransaction(); err != nil {
		t.Fatal(err)
	}
	_, err = foreign.Database(db.Name()).Collection("locks").UpdateMany(mongo.NewSessionContext(t.Context(), sess), bson.D{}, document.Op("$inc", document.Op("foreign", 1)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Renew(t.Context(), holds); err != nil {
		t.Fatal(err)
	}
	if err := sess.AbortTransaction(t.Context()); err != nil {
		t.Fatal(err)
	}
	if commands.most > documentedConns {
		t.Errorf("P11: %d commands at once for a batch of %d blocked keys, at most %d are documented", commands.most, len(holds), documentedConns)
	}
	t.Logf("%d commands at once", commands.most)
}
