// P21: guarded transactions of readers and slots.

package locktest

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
)

var sharedGuards = []testCase{
	{name: "P21_ReadersBesideEachOther", run: guardsBeside, needs: guardingModes},
	{name: "P21_WriterWaits", run: func(t *testing.T, e *env) { guardKeepsOut(t, e, []rowlock.Option{rowlock.Shared()}, nil) }, needs: guardingModes},
	{name: "P21_SlotWaits", run: func(t *testing.T, e *env) {
		guardKeepsOut(t, e, []rowlock.Option{rowlock.Slots(1)}, []rowlock.Option{rowlock.Slots(1)})
	}, needs: guardingModes},
	{name: "P21_WriterAfterASlotWaits", run: func(t *testing.T, e *env) { guardKeepsOut(t, e, []rowlock.Option{rowlock.Slots(1)}, nil) }, needs: guardingModes},
	{name: "P21_ReaderAfterAWriterWaits", run: func(t *testing.T, e *env) { guardKeepsOut(t, e, nil, []rowlock.Option{rowlock.Shared()}) }, needs: guardingModes},
	{name: "P21_Stale", run: staleGuard, needs: func(e *env) bool { return guardingModes(e) && forcing(e) }},
}

func guardingModes(e *env) bool { return modes(e) && e.Guard != nil }

// guardsBeside has several guarded transactions open at once, and others that come and go.
func guardsBeside(t *testing.T, e *env) {
	stores := []driver.Store{e.Open(t), e.Open(t)}
	a, b := e.clientOn(t, stores[0], rowlock.Options{}), e.clientOn(t, stores[1], rowlock.Options{})
	key := e.key(t)
	leases := []*rowlock.Lease{
		acquire(t, a, key, rowlock.Shared(), rowlock.Guarded()), acquire(t, b, key, rowlock.Shared(), rowlock.Guarded()),
		acquire(t, a, key, rowlock.Slots(3), rowlock.Guarded()), acquire(t, b, key, rowlock.Slots(3), rowlock.Guarded()),
	}
	var commits []func() error
	for i, l := range leases {
		commit, err := e.Guard(t, stores[i%2], l)
		if err != nil {
			t.Fatalf("P21: guard of lease %d: %v", i, err)
		}
		commits = append(commits, commit)
	}
	for i, more := range [][]rowlock.Option{{rowlock.Shared()}, {rowlock.Slots(3)}} {
		lease := acquire(t, b, key, more...)
		if err := renew1(t, lease); err != nil {
			t.Errorf("P21: renewal %d beside guards: %v", i, err)
		}
		release1(t, lease)
	}
	for i, l := range leases {
		if err := renew1(t, l); err != nil {
			t.Errorf("P21: renewal of lease %d with a guarded transaction open: %v", i, err)
		}
	}
	for i, commit := range commits {
		if err := commit(); err != nil {
			t.Errorf("P21: the transaction of lease %d, beside others: %v", i, err)
		}
		release1(t, leases[i])
	}
	freeSoon(t, b, key)
}

// guardKeepsOut has a guarded transaction open when its lease is over: the next hold that
// excludes it is granted after the transaction has ended.
func guardKeepsOut(t *testing.T, e *env, first, second []rowlock.Option) {
	s := e.Open(t)
	a, b := e.clientOn(t, s, rowlock.Options{}), e.client(t, rowlock.Options{})
	e.patiently(t, func(ttl time.Duration) error {
		key := e.key(t)
		opts := append([]rowlock.Option{rowlock.TTL(ttl), rowlock.NoRenew(), rowlock.Guarded()}, first...)
		lease := acquire(t, a, key, opts...)
		commit, err := e.Guard(t, s, lease)
		if errors.Is(err, rowlock.ErrLost) {
			return err // the machine stood still
		} else if err != nil {
			t.Fatalf("P21: guard: %v", err)
		}
		var over atomic.Bool
		granted := make(chan error, 1)
		go func() {
			next, err := b.Acquire(soon(t), key, second...)
			if err == nil {
				if !over.Load() {
					t.Errorf("P21: granted (token %d after %d) while a guarded transaction of the hold before was open", next.Token(), lease.Token())
				}
				err = next.Release(context.Background())
			}
			granted <- err
		}()
		closed(t, "the lease is over", lease.Done())
		time.Sleep(ttl) // the next one has time to come too early
		over.Store(true)
		if err := commit(); err != nil {
			t.Logf("the transaction of a lost lease: %v", err)
		}
		if err := <-granted; err != nil {
			t.Errorf("P21: the next hold: %v", err)
		}
		return nil
	})
}

// staleGuard: after a writer was granted, a reader or slot of the phase before has no guard,
// also when a new phase has begun.
func staleGuard(t *testing.T, e *env) {
	s := e.Open(t)
	a, b := e.clientOn(t, s, rowlock.Options{}), e.client(t, rowlock.Options{})
	for _, m := range []member{{mode: driver.Shared}, {mode: driver.Slot, n: 1}} {
		key := e.key(t)
		opts := append(m.options(), rowlock.Guarded())
		lease := acquire(t, a, key, opts...)
		force(t, s, key) // its hold ends behind its back
		for _, next := range [][]rowlock.Option{nil, opts} {
			newer := acquire(t, b, key, next...)
			commit, err := e.Guard(t, s, lease)
			if err == nil {
				err = commit()
			}
			if err == nil {
				t.Errorf("P21: a transaction of mode %v, token %d, was committed after token %d was granted", m.mode, lease.Token(), newer.Token())
			}
			release1(t, newer)
		}
	}
}
