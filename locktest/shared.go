// P18: each hold of a reader or of a slot ends alone.

package locktest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
)

var sharedCases = []testCase{
	{name: "P18_EachReaderEndsAlone", engine: true, run: readersEndAlone, needs: shared},
	{name: "P18_AcquireReplyLost", engine: true, run: sharedReplyLost, needs: modes},
	{name: "P18_ReleaseReplyLost", engine: true, run: sharedReleaseLost, needs: modes},
	{name: "P18_KilledHolder", long: true, run: sharedKilled, needs: func(e *env) bool { return modes(e) && processes(e) }},
	{name: "P18_ForcedAll", engine: true, run: sharedForced, needs: modesForcing},
}

// readersEndAlone: leases of one program on one hold of the database, and of others.
func readersEndAlone(t *testing.T, e *env) {
	a, b := e.client(t, rowlock.Options{}), e.client(t, rowlock.Options{})
	key := e.key(t)
	var leases []*rowlock.Lease
	for i := range 6 {
		leases = append(leases, acquire(t, []*rowlock.Client{a, a, b}[i%3], key, rowlock.Shared()))
	}
	for i, l := range leases {
		if l.Token() != leases[0].Token() {
			t.Errorf("P20: readers of a phase have tokens %d and %d", leases[0].Token(), l.Token())
		}
		refused(t, a, key)
		refused(t, b, key)
		release1(t, l)
		if err := l.Err(); !errors.Is(err, rowlock.ErrReleased) {
			t.Errorf("P18: a reader after its release: %v", err)
		}
		if err := l.Release(context.Background()); err != nil {
			t.Errorf("a second release: %v", err)
		}
		for _, other := range leases[i+1:] {
			if err := renew1(t, other); err != nil {
				t.Errorf("P18: a reader after the release of another: %v", err)
			}
		}
	}
	freeSoon(t, b, key)
	if n := a.Stats().Held + b.Stats().Held; n != 0 {
		t.Errorf("%d leases are held after the last release", n)
	}
}

// sharedReplyLost: the undo of an attempt whose reply was lost ends no other hold.
func sharedReplyLost(t *testing.T, e *env) {
	a, f := e.faulty(t, rowlock.Options{Handoff: -1}) // each reader has a hold of its own
	b := e.client(t, rowlock.Options{})
	for _, m := range []member{{mode: driver.Shared}, {mode: driver.Slot, n: 8}} {
		key := e.key(t)
		first, other := acquire(t, a, key, m.options()...), acquire(t, b, key, m.options()...)
		f.On(OpAcquire, loseGrant())
		lease := acquire(t, a, key, m.options()...)
		until(t, "the lost attempt is undone", func() bool { return a.Stats().Unresolved == 0 })
		f.Clear()
		for _, l := range []*rowlock.Lease{first, other, lease} {
			if err := renew1(t, l); err != nil {
				t.Errorf("P18: a lease of mode %v was lost to the undo of another attempt: %v", m.mode, err)
			}
		}
		if info, err := b.Inspect(soon(t), key); err != nil || info.Readers+info.Slots != 3 {
			t.Errorf("P18: the server says %+v, %v of a key with three holds", info, err)
		}
		for _, l := range []*rowlock.Lease{first, other, lease} {
			release1(t, l)
		}
		freeSoon(t, b, key)
	}
}

// sharedReleaseLost: a release whose reply was lost is repeated, and ends no other hold.
func sharedReleaseLost(t *testing.T, e *env) {
	a, f := e.faulty(t, rowlock.Options{ReleaseWait: 300 * time.Millisecond})
	b := e.client(t, rowlock.Options{})
	for _, m := range []member{{mode: driver.Shared}, {mode: driver.Slot, n: 2}} {
		key := e.key(t)
		lease, other := acquire(t, a, key, m.options()...), acquire(t, b, key, m.options()...)
		f.On(OpRelease, Once(LoseReply))
		if err := lease.Release(soon(t)); err != nil {
			t.Errorf("release without an answer: %v, want nil", err)
		}
		next := acquire(t, b, key, m.options()...)
		until(t, "the release is settled", func() bool { return a.Stats().Unresolved == 0 })
		for _, l := range []*rowlock.Lease{other, next} {
			if err := renew1(t, l); err != nil {
				t.Errorf("P18: a lease of mode %v was lost to a repeated release: %v", m.mode, err)
			}
			release1(t, l)
		}
		freeSoon(t, b, key)
	}
}

// sharedKilled: a process that dies leaves its share to the TTL, and the others theirs.
func sharedKilled(t *testing.T, e *env) {
	a, b := e.client(t, rowlock.Options{}), e.client(t, rowlock.Options{})
	for _, m := range []member{{mode: driver.Shared}, {mode: driver.Slot, n: 2}} {
		key := e.key(t)
		mine := acquire(t, a, key, m.options()...)
		p := e.start(t, job{Role: "hold", Key: key, TTL: e.ttl, Shared: m.mode == driver.Shared, Slots: m.n})
		p.held()
		p.kill()
		next := acquire(t, b, key, m.options()...) // a slot: the dead one's
		if err := renew1(t, mine); err != nil {
			t.Errorf("P18: a holder of mode %v after another's death: %v", m.mode, err)
		}
		release1(t, mine)
		release1(t, next)
		freeSoon(t, b, key) // after the dead one's TTL
	}
}

// sharedForced: a forced release ends every hold of the key.
func sharedForced(t *testing.T, e *env) {
	a, b := e.client(t, rowlock.Options{}), e.client(t, rowlock.Options{})
	key := e.key(t)
	leases := []*rowlock.Lease{
		acquire(t, a, key, rowlock.Shared()), acquire(t, a, key, rowlock.Shared()), acquire(t, b, key, rowlock.Shared()),
		acquire(t, a, key, rowlock.Slots(2)), acquire(t, b, key, rowlock.Slots(2)),
	}
	if info, err := b.ForceRelease(soon(t), key); err != nil || !info.InPhase() || info.Slots != 2 {
		t.Errorf("force release: %+v, %v", info, err)
	}
	for i, l := range leases {
		if err := renew1(t, l); reasonOf(err) != rowlock.ReasonForced && !errors.Is(err, rowlock.ErrLost) || reasonOf(l.Err()) != rowlock.ReasonForced {
			t.Errorf("lease %d after a forced release: %v, then %v, want ErrLost for reason forced", i, err, l.Err())
		}
	}
	if token := freeSoon(t, b, key); token <= leases[4].Token() || token <= leases[3].Token() {
		Breach(t, "P20", "token %d after a forced release of %d and %d", token, leases[3].Token(), leases[4].Token())
	}
}
