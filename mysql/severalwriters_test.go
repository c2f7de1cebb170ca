package mysqllock

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/internal/testserver"
	"github.com/rowlock/rowlock/locktest"
)

// TestP1_SeveralWriters: programs that write to different nodes of Galera want the same keys at once. Each key has one holder
// at a time, and its tokens rise in the order of its grants.
func TestP1_SeveralWriters(t *testing.T) {
	testserver.Long(t)
	t.Parallel()
	const grants = 80 // of each key on each node
	l := newClusterLab(t, testserver.MariaDBGalera3)
	for _, strategy := range []Strategy{VersionColumn, UniqueInsert} {
		t.Run(strategy.String(), func(t *testing.T) {
			keys := make([]wantedKey, 4)
			var workers sync.WaitGroup
			for node := range l.MemberDSNs() {
				c := l.writer(t, node, Options{Strategy: strategy})
				for i := range keys {
					// One worker a key: within a program there is nobody to hand off to, so that each grant is the database's.
					workers.Go(func() { keys[i].compete(t, c, fmt.Sprint("key", i), grants) })
				}
			}
			workers.Wait()
			for i := range keys {
				t.Logf("key %d: %d of %d grants came after one of another node", i, keys[i].moved, len(l.MemberDSNs())*grants)
			}
		})
	}
}

// writer is a program on one member of the cluster. Its TTL is longer than the test waits for anything.
func (l *clusterLab) writer(t *testing.T, member int, o Options) *rowlock.Client {
	t.Helper()
	s, err := Open(l.MemberDSNs()[member], o)
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	return (&lab{t: t}).programOn(t, s, rowlock.Options{TTL: 2 * time.Minute}).Client
}

// wantedKey is what the holders of a key see of each other.
type wantedKey struct {
	mu     sync.Mutex
	inside *rowlock.Lease // of the last holder that entered, until it left
	last   int64          // its token
	by     *rowlock.Client
	moved  int // grants after one of another program
}

// compete takes and releases the key that many times. Half of the grants come from tries in quick succession, which meet those
// of other nodes in the moment of a release.
func (k *wantedKey) compete(t *testing.T, c *rowlock.Client, key string, grants int) {
	ctx := patient(t)
	for n := 0; n < grants; {
		take := c.Acquire
		if n%2 == 1 {
			take = c.TryAcquire
		}
		lease, err := take(ctx, key)
		if errors.Is(err, rowlock.ErrHeld) && ctx.Err() == nil {
			continue
		}
		if err != nil {
			t.Errorf("P8: acquire %q: %v", key, err)
			return
		}
		n++
		k.enter(t, c, lease)
		time.Sleep(time.Millisecond)
		k.leave(lease)
		if err := lease.Release(ctx); err != nil {
			t.Errorf("P1: release %q: %v", key, err)
			return
		}
	}
}

func (k *wantedKey) enter(t *testing.T, c *rowlock.Client, lease *rowlock.Lease) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if lease.Err() != nil {
		return // it is somebody else's turn already
	}
	if k.by != c {
		k.by = c
		k.moved++
	}
	if k.inside != nil && k.inside.Err() == nil {
		locktest.Breach(t, "P1", "two trust to hold %q: token %d beside %d", lease.Key(), lease.Token(), k.inside.Token())
	}
	if lease.Token() <= k.last {
		locktest.Breach(t, "P3", "token %d of %q after %d", lease.Token(), lease.Key(), k.last)
	}
	k.inside, k.last = lease, lease.Token()
}

func (k *wantedKey) leave(lease *rowlock.Lease) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.inside == lease {
		k.inside = nil
	}
}
