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

// usage is what holds and waits in holdersAndWaiters and benchConnections.
type usage struct {
	held, waiters, waited int // leases; callers that wait; keys that they wait for
	most                  int // connections seen
}

func (u usage) String() string {
	return fmt.Sprintf("%d leases held and %d callers waiting for %d keys", u.held, u.waiters, u.waited)
}

// gather has one client hold and wait, looks at its connections for d, and lets all
// of it end.
func (e *env) gather(t testing.TB, n int, d time.Duration) usage {
	t.Helper()
	u := usage{held: e.hold(n), waiters: n}
	u.waited = max(u.held/10, 1)
	s := e.Open(t)
	c := e.clientOn(t, s, rowlock.Options{TTL: 10 * e.ttl})
	other := e.client(t, rowlock.Options{})
	var mine, theirs []*rowlock.Lease
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range u.held {
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
	for range u.waited {
		theirs = append(theirs, acquire(t, other, e.key(t)))
	}
	ctx, cancel := context.WithCancel(context.Background())
	for i := range u.waiters {
		wg.Go(func() {
			lease, err := c.Acquire(ctx, theirs[i%len(theirs)].Key())
			if err == nil && theirs[i%len(theirs)].Err() == nil {
				Breach(t, "P1", "token %d was granted while another holds the key", lease.Token())
			} else if err == nil {
				t.Errorf("a lease was lost while others waited for its key: %v", theirs[i%len(theirs)].Err())
			} else if !errors.Is(err, context.Canceled) {
				t.Errorf("wait: %v", err)
			}
		})
	}
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		u.most = max(u.most, e.Connections(t, s))
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
	u.most = max(u.most, e.Connections(t, s))
	return u
}

func holdersAndWaiters(t *testing.T, e *env) {
	u := e.gather(t, 200, 5*e.ttl)
	most := e.MaxConnections(u.held, u.waited)
	t.Logf("%d connections, at most %d allowed, for %v", u.most, most, u)
	if u.most > most || u.most == 0 {
		t.Errorf("P11: %d connections for %v, at most %d", u.most, u, most)
	}
}
