package mongolock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/internal/testserver"
)

// guardedGroup gets keys as a group that will be guarded.
func guardedGroup(t testing.TB, c *rowlock.Client, keys ...string) *rowlock.Group {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testserver.Patience(t))
	defer cancel()
	g, err := c.AcquireAll(ctx, rowlock.Keys(keys...), rowlock.Guarded())
	must(t, err)
	return g
}

// TestP4_GuardOverAGroup: one command guards every lease of a group: none of the keys is
// granted while the transaction is open.
func TestP4_GuardOverAGroup(t *testing.T) {
	t.Parallel()
	s := shared(t)
	a, b := locker(t, s, rowlock.Options{}), locker(t, s, rowlock.Options{})
	g := guardedGroup(t, a, "c", "a", "b")
	leases := g.Leases()
	sess, ctx := begin(t, s)
	before := s.Statements()
	must(t, s.Guard(ctx, leases[0], leases[1], leases[2], leases[1]))
	if n := s.Statements() - before; n != 1 {
		t.Errorf("a guard of three leases took %d commands", n)
	}
	for _, l := range leases {
		expire(t, s, l.Key())
		var held *rowlock.HeldError
		if _, err := b.TryAcquire(patient(t), l.Key()); !errors.As(err, &held) || !held.Pinned {
			t.Errorf("P4: takeover of %q while a transaction that guards its group is open: %v, want it pinned", l.Key(), err)
		}
	}
	must(t, sess.CommitTransaction(ctx))
	next := guardedGroup(t, b, "a", "b", "c")
	_, ctx = begin(t, s)
	wants(t, "P4: guard after the takeover", s.Guard(ctx, leases[0], leases[1:]...), rowlock.ErrLost)
	must(t, next.Release(patient(t)))
}

// TestP4_GuardOverAGroupWithALostLease is refused as a whole and names the lost one, whichever
// of them it is.
func TestP4_GuardOverAGroupWithALostLease(t *testing.T) {
	t.Parallel()
	s := shared(t)
	a, b := locker(t, s, rowlock.Options{}), locker(t, s, rowlock.Options{})
	for i, key := range []string{"a", "b", "c"} {
		g := guardedGroup(t, a, "a", "b", "c")
		leases := g.Leases()
		expire(t, s, key)
		next := guarded(t, b, key)
		for name, guard := range map[string]func() error{
			"Guard": func() error {
				sess, ctx := begin(t, s)
				defer func() { must(t, sess.AbortTransaction(ctx)) }() // it has written the fences of the others
				return s.Guard(ctx, leases[0], leases[1:]...)
			},
			"MarkRun": func() error {
				sess, ctx := begin(t, s)
				defer func() { must(t, sess.AbortTransaction(ctx)) }()
				return s.MarkRun(ctx, leases[0], "r", leases[1:]...)
			},
			"InTx": func() error {
				return s.InTx(patient(t), leases[0], func(context.Context) error { t.Error("called"); return nil }, leases[1:]...)
			},
			"Once": func() error {
				return s.Once(patient(t), leases[0], "r", func(context.Context) error { t.Error("called"); return nil }, leases[1:]...)
			},
		} {
			err := guard()
			var lost *rowlock.LostError
			if !errors.As(err, &lost) || lost.Key != key || lost.Token != leases[i].Token() {
				t.Errorf("P4: %s of a group whose lease of %q was taken: %v", name, key, err)
			}
		}
		_ = g.Release(patient(t))
		must(t, next.Release(patient(t)))
	}
}

// TestGuardOverAGroupTooOld: a transaction that has read before the group was acquired is to
// be run again.
func TestGuardOverAGroupTooOld(t *testing.T) {
	t.Parallel()
	s := shared(t)
	_, ctx := begin(t, s)
	must(t, add(ctx, s, "x"))
	leases := guardedGroup(t, locker(t, s, rowlock.Options{}), "a", "b").Leases()
	wants(t, "guard in a transaction older than the group", s.Guard(ctx, leases[0], leases[1]), rowlock.ErrConflict)
}

// TestGuardOverAGroupErrors: what cannot be guarded together.
func TestGuardOverAGroupErrors(t *testing.T) {
	t.Parallel()
	s := shared(t)
	c := locker(t, s, rowlock.Options{})
	lease := guarded(t, c, "a")
	plain, err := c.Acquire(patient(t), "b")
	must(t, err)
	foreign := guarded(t, locker(t, open(t, s.db, Options{}), rowlock.Options{}), "c")
	for name, tc := range map[string]struct {
		more *rowlock.Lease
		says string
	}{
		"nil":                   {nil, "lease 2 of 2 is nil"},
		"without Guarded":       {plain, `guard "b"`},
		"another Store's lease": {foreign, "another Store"},
	} {
		_, ctx := begin(t, s)
		if err := s.Guard(ctx, lease, tc.more); !errors.Is(err, rowlock.ErrInvalid) || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestP4_InTxOverAGroup: what it wrote is committed, a run of the first lease's key is marked
// once, and one inside another that shares a lease is refused.
func TestP4_InTxOverAGroup(t *testing.T) {
	t.Parallel()
	s := shared(t)
	leases := guardedGroup(t, locker(t, s, rowlock.Options{}), "b", "a").Leases()
	must(t, s.InTx(patient(t), leases[0], func(ctx context.Context) error {
		for name, err := range map[string]error{
			"the other way round": s.InTx(ctx, leases[1], func(context.Context) error { return nil }, leases[0]),
			"of the other alone":  s.InTx(ctx, leases[1], func(context.Context) error { return nil }),
			"of the first alone":  s.InTx(ctx, leases[0], func(context.Context) error { return nil }),
		} {
			wants(t, name+", inside", err, rowlock.ErrInvalid)
		}
		return add(ctx, s, "k")
	}, leases[1]))
	once := func() error {
		return s.Once(patient(t), leases[0], "r", func(ctx context.Context) error { return add(ctx, s, "k") }, leases[1])
	}
	must(t, once())
	wants(t, "P13: Once again", once(), rowlock.ErrAlreadyRan)
	must(t, s.Once(patient(t), leases[1], "r", func(ctx context.Context) error { return add(ctx, s, "k") }, leases[0])) // of the other key it is another run
	if n := number(t, s, "k"); n != 3 {
		t.Errorf("P13: %d effects, want 3", n)
	}
}

// insideGroup stays in a transaction of a group for ever: of exclusive leases, or of several
// modes.
func (j txJob) insideGroup(t *testing.T, s *Store, c *rowlock.Client, mixed bool) {
	wants := rowlock.Keys("a", "b", "c")
	if mixed {
		wants[1].Options = []rowlock.Option{rowlock.Shared()}
		wants[2].Options = []rowlock.Option{rowlock.Slots(1)}
	}
	g, err := c.AcquireAll(patient(t), wants, rowlock.Guarded())
	must(t, err)
	leases := g.Leases()
	err = s.InTx(context.Background(), leases[0], func(ctx context.Context) error {
		must(t, add(ctx, s, "k"))
		fmt.Println("inside", leases[0].Token())
		<-ctx.Done()
		return context.Cause(ctx)
	}, leases[1:]...)
	fmt.Println("ended", err)
}

// TestP4_InTxOverAGroupOfAKilledProcess: the transaction runs in the session of the first
// lease, and who is granted any key of the group ends it.
func TestP4_InTxOverAGroupOfAKilledProcess(t *testing.T) {
	testserver.Long(t)
	t.Parallel()
	for _, key := range []string{"c", "b", "a"} {
		t.Run(key, func(t *testing.T) { inTxOfAKilledGroup(t, "inside group", key) })
		t.Run(key+" of several modes", func(t *testing.T) { inTxOfAKilledGroup(t, "inside mixed group", key) })
	}
}

func inTxOfAKilledGroup(t *testing.T, role, key string) {
	t.Parallel()
	s := shared(t)
	p := child(t, s, txJob{Role: role, TTL: time.Second})
	p.says("inside")
	must(t, p.Kill())
	start := time.Now()
	lease := guarded(t, locker(t, s, rowlock.Options{}), key)
	if took := time.Since(start); took > 20*time.Second {
		t.Errorf("%q was granted %v after the kill (TTL 1s): the dead transaction pinned it", key, took)
	}
	if n := number(t, s, "k"); n != 0 {
		t.Errorf("P4: the dead process committed")
	}
	must(t, s.InTx(patient(t), lease, func(ctx context.Context) error { return add(ctx, s, "k") }))
}
