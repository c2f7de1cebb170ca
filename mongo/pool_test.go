package mongolock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/testserver"
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
	for size := 1; size <= minConns+1; size++ {
		s, err := New(connect(t, uri, options.Client().SetMaxPoolSize(uint64(size))).Database(name).Collection("locks"), Options{})
		must(t, err)
		_, used := s.Acquire(t.Context(), []driver.Request{request(fmt.Sprint("k", size))})
		for _, err := range []error{used, s.Check(t.Context()), s.Check(t.Context())} {
			switch both := fmt.Sprintf("%d connections (maxPoolSize), locks need at least %d", size, minConns); {
			case size >= minConns && err != nil:
				t.Errorf("a pool of %d: %v", size, err)
			case size < minConns && (!errors.Is(err, driver.ErrInvalid) || !driver.IsLasting(err) || !strings.Contains(err.Error(), both)):
				t.Errorf("a pool of %d: %v, want a lasting error that names both numbers", size, err)
			}
		}
	}
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
	t.Parallel()
	uri := testserver.DSN(t, testserver.Mongo)
	beside := shared(t)
	s, err := New(connect(t, uri, options.Client().SetMaxPoolSize(minConns)).Database(beside.db.Name()).Collection("locks"), Options{})
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
