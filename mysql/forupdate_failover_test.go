package mysqllock

import (
	"testing"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/internal/testserver"
	"github.com/rowlock/rowlock/locktest"
)

// forUpdate is a program's client of that strategy, with a lease that outlives the change of the primary.
func (l *clusterLab) forUpdate() *rowlock.Client {
	l.t.Helper()
	s, err := Open(l.LeavingDSN(), Options{Strategy: SelectForUpdate})
	must(l.t, err)
	l.t.Cleanup(func() { must(l.t, s.Close()) })
	return (&lab{t: l.t}).programOn(l.t, s, rowlock.Options{TTL: 20 * time.Second}).Client
}

// TestP2_FrozenPrimary: the primary freezes, and the connections to it stay open. Whoever holds a key there by
// SelectForUpdate trusts it for up to a TTL; on the next primary nobody has its row locked, and the key is all the same
// not granted before that trust is over.
func TestP2_FrozenPrimary(t *testing.T) {
	testserver.Long(t)
	t.Parallel()
	for _, kind := range []string{testserver.MySQLSemiSync, testserver.MySQLGroup3} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			l := newClusterLab(t, kind)
			first := l.forUpdate()
			held, err := first.Acquire(patient(t), "held")
			must(t, err)
			released, err := first.Acquire(patient(t), "released")
			must(t, err)
			must(t, released.Release(patient(t)))

			l.Pause(l.Primary())
			l.Promote()
			second := l.forUpdate()
			info, err := second.Inspect(patient(t), "held")
			must(t, err)
			if trusted := held.Err() == nil; trusted && !info.Held {
				t.Errorf("a key that somebody trusts to hold is shown as free: %+v", info)
			}
			for _, before := range []*rowlock.Lease{held, released} {
				key, began := before.Key(), time.Now()
				after, err := second.Acquire(patient(t), key)
				must(t, err)
				if key == "held" && before.Err() == nil {
					locktest.Breach(t, "P2", "two trust to hold %q: granted %v after the next primary was there", key, time.Since(began).Round(time.Millisecond))
				}
				if after.Token() <= before.Token() {
					locktest.Breach(t, "P3", "token %d of %q after %d", after.Token(), key, before.Token())
				}
				t.Logf("%q after %v", key, time.Since(began).Round(10*time.Millisecond))
			}
		})
	}
}

// TestP16_FrozenPrimary: as TestP2_FrozenPrimary, for readers. They begin no phase on the next primary beside an exclusive hold
// that is trusted, and theirs, which are rows, keep a writer out there.
func TestP16_FrozenPrimary(t *testing.T) {
	testserver.Long(t)
	t.Parallel()
	l := newClusterLab(t, testserver.MySQLSemiSync)
	first := l.forUpdate()
	written, err := first.Acquire(patient(t), "written")
	must(t, err)
	read, err := first.Acquire(patient(t), "read", rowlock.Shared(), rowlock.NoRenew())
	must(t, err)
	beside, err := l.forUpdate().Acquire(patient(t), "read", rowlock.Shared(), rowlock.NoRenew())
	must(t, err)

	l.Pause(l.Primary())
	l.Promote()
	second := l.forUpdate()
	after, err := second.Acquire(patient(t), "read", rowlock.Shared(), rowlock.NoRenew())
	must(t, err)
	if read.Err() == nil && after.Token() != read.Token() {
		t.Errorf("P20: a reader has token %d in a phase whose token is %d", after.Token(), read.Token())
	}
	must(t, after.Release(patient(t)))

	cases := []struct {
		before []*rowlock.Lease
		option []rowlock.Option
	}{
		{[]*rowlock.Lease{read, beside}, nil},
		{[]*rowlock.Lease{written}, []rowlock.Option{rowlock.Shared()}},
	}
	for _, c := range cases {
		lease, err := second.TryAcquire(patient(t), c.before[0].Key(), c.option...)
		if err == nil && c.before[0].Err() == nil {
			t.Errorf("P16: %q was granted at once beside a hold that excludes it", lease.Key())
		}
	}
	for _, c := range cases {
		key, began := c.before[0].Key(), time.Now()
		next, err := second.Acquire(patient(t), key, c.option...)
		must(t, err)
		for _, before := range c.before {
			if before.Err() == nil {
				t.Errorf("P16: %q was granted beside a hold that excludes it: %v after the next primary was there", key, time.Since(began).Round(time.Millisecond))
			}
			if next.Token() <= before.Token() {
				locktest.Breach(t, "P20", "token %d of %q after %d", next.Token(), key, before.Token())
			}
		}
		t.Logf("%q after %v", key, time.Since(began).Round(10*time.Millisecond))
	}
}
