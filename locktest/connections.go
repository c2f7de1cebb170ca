// P11: the connections that a program uses are bounded, whatever the number of its
// holders and waiters, counted on the server.

package locktest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/rowlock/rowlock"
)

var connections = []testCase{
	{name: "P11_HoldersAndWaiters", run: holdersAndWaiters, needs: counting, alone: true},
}

// crowd is what holds and waits in holdersAndWaiters and BenchConnections.
type crowd struct {
	held, waiters, waited int // leases; callers that wait; keys that they wait for
	most                  int // connections seen
}

func (c crowd) String() string {
	return fmt.Sprintf("%d leases held and %d callers waiting for %d keys", c.held, c.waiters, c.waited)
}

// gather has one client hold and wait, looks at its connections for d, and lets all
// of it end.
func (e *env) gather(t testing.TB, n int, d time.Duration) crowd {
	t.Helper()
	cr := crowd{held: e.hold(n), waiters: n}
	cr.waited = max(cr.held/10, 1)
	s := e.Open(t)
	c := e.clientOn(t, s, rowlock.Options{TTL: 10 * e.ttl})
	other := e.client(t, rowlock.Options{})
	var mine, theirs []*rowlock.Lease
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range cr.held {
		key := e.key(t)
		wg.Go(func() {
			lease, err := c.Acquire(soon(t), key)
			if err != nil {
				t.Errorf("acquire: %v", err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			mine = append(mine, lease)
		})
	}
	wg.Wait()
	for range cr.waited {
		theirs = append(theirs, acquire(t, other, e.key(t)))
	}
	ctx, cancel := context.WithCancel(context.Background())
	for i := range cr.waiters {
		wg.Go(func() {
			lease, err := c.Acquire(ctx, theirs[i%len(theirs)].Key())
			if err == nil {
				t.Errorf("P1: token %d was granted while another holds the key", lease.Token())
			} else if !errors.Is(err, context.Canceled) {
				t.Errorf("wait: %v", err)
			}
		})
	}
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		cr.most = max(cr.most, e.Connections(t, s))
	}
	cancel()
	wg.Wait()
	for _, lease := range append(mine, theirs...) {
		wg.Go(func() {
			if err := lease.Release(context.Background()); err != nil {
				t.Errorf("release: %v", err)
			}
		})
	}
	wg.Wait()
	cr.most = max(cr.most, e.Connections(t, s))
	return cr
}

func holdersAndWaiters(t *testing.T, e *env) {
	cr := e.gather(t, 200, 5*e.ttl)
	most := e.MaxConnections(cr.held, cr.waited)
	t.Logf("%d connections, at most %d allowed, for %v", cr.most, most, cr)
	if cr.most > most || cr.most == 0 {
		t.Errorf("P11: %d connections for %v, at most %d", cr.most, cr, most)
	}
}
