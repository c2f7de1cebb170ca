package enginetest

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/rowlock/rowlock"
)

// TestP2_GrantCountsFromTheStart: a grant whose reply was slow is trusted from the
// start of its attempt, not from the reply.
func TestP2_GrantCountsFromTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		c := newClient(t, f)
		f.set(on("acquire", verdict{slow: 5 * time.Second}))
		start := time.Now()
		l := acquire(t, c, "k", rowlock.NoRenew())
		<-l.Done()
		if got, want := time.Since(start), 27*time.Second; got != want {
			t.Errorf("P2: trusted until %v after the start of the attempt, want TTL - margin, %v", got, want)
		}
	})
}

// TestP2_HandingOffAddsNoTrust: the next local holder is trusted for what is left of
// the hold, because the database counts from the last renewal.
func TestP2_HandingOffAddsNoTrust(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		c := newClient(t, f, rowlock.Options{Handoff: time.Minute})
		f.set(on("renew", verdict{hang: true}))
		start := time.Now()
		a, b := two(t, c, 5*time.Second, nil, nil)
		if holdOf(a).ID != holdOf(b).ID {
			t.Fatal("not handed off")
		}
		<-b.Done()
		if got, want := time.Since(start), 27*time.Second; got != want {
			t.Errorf("P2: trusted until %v after the grant, want TTL - margin, %v", got, want)
		}
	})
}

// TestP2_AHangingRenewalDelaysNoSignal: while the renewal of one lease hangs, the
// trust deadline of another passes, and it is told at that moment.
func TestP2_AHangingRenewalDelaysNoSignal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		c := newClient(t, f)
		f.set(on("renew", verdict{hang: true}))
		acquire(t, c, "hangs") // its renewal leaves after 10 s and is given up after 15.7 s
		time.Sleep(9 * time.Second)
		start := time.Now()
		l := acquire(t, c, "ends", rowlock.TTL(2*time.Second), rowlock.NoRenew())
		<-l.Done()
		if got, want := time.Since(start), 1800*time.Millisecond; got != want {
			t.Errorf("P2: told after %v, want TTL - margin, %v", got, want)
		}
		if n := len(f.seen("renew")); n != 1 {
			t.Errorf("%d renewals were under way, want the one that hangs", n)
		}
	})
}

// TestP2_LeftIsTheTrust: Left counts down to the trust deadline, a renewal moves it, and of a lease
// that has ended nothing is left, also if its hold went on to another caller.
func TestP2_LeftIsTheTrust(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, newFaultStore(), rowlock.Options{Handoff: time.Minute})
		want := func(l *rowlock.Lease, left time.Duration) {
			t.Helper()
			if got := l.Left(); got != left {
				t.Errorf("P2: %v are left, want %v", got, left)
			}
		}
		l := acquire(t, c, "k", rowlock.NoRenew())
		want(l, 27*time.Second) // TTL - margin
		time.Sleep(10 * time.Second)
		want(l, 17*time.Second)
		if err := l.Renew(t.Context()); err != nil {
			t.Fatal(err)
		}
		want(l, 27*time.Second)
		time.Sleep(27 * time.Second)
		want(l, 0)
		if l.Err() == nil {
			t.Error("nothing is left of the lease, and Err is nil")
		}

		a, b := two(t, c, 5*time.Second, nil, nil)
		want(a, 0)
		if left := b.Left(); left <= 0 || left > 27*time.Second {
			t.Errorf("P2: %v are left of the lease that was handed off", left)
		}
		var none *rowlock.Lease
		want(none, 0)
	})
}
