package mongolock

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/testserver"
	"github.com/rowlock/rowlock/locktest"
	"github.com/rowlock/rowlock/mongo/internal/document"
	"github.com/rowlock/rowlock/mongo/internal/fence"
)

// Guards of readers and slots, by the holds of a Store.

func guardedOf(q driver.Request) driver.Request {
	q.Guarded = true
	return q
}

// guardHold writes the guard of a hold in the transaction of ctx, and reports whether it fits.
func guardHold(t testing.TB, s *Store, ctx context.Context, h driver.Hold) (bool, error) {
	t.Helper()
	reply, err := s.db.Collection(s.fences).UpdateOne(ctx, fence.Guard(h), document.Op("$inc", document.Op("n", int64(1))))
	if err != nil {
		return false, err
	}
	return reply.MatchedCount == 1, nil
}

// guardedTx begins a transaction under the hold, which must fit.
func guardedTx(t testing.TB, s *Store, h driver.Hold) (*mongo.Session, context.Context) {
	t.Helper()
	sess, ctx := begin(t, s)
	if fits, err := guardHold(t, s, ctx, h); err != nil || !fits {
		t.Fatalf("guard of mode %v: %v, %v", h.Mode, fits, err)
	}
	must(t, add(ctx, s, h.ID.String()))
	return sess, ctx
}

// passes reports whether a transaction under the hold can be guarded now.
func passes(t testing.TB, s *Store, h driver.Hold) bool {
	t.Helper()
	sess, ctx := begin(t, s)
	fits, err := guardHold(t, s, ctx, h)
	must(t, err)
	must(t, sess.AbortTransaction(ctx))
	return fits
}

// expireAll moves the ends of all holds of a key into the past.
func expireAll(t testing.TB, s *Store, key string) {
	t.Helper()
	past := time.Now().Add(-time.Second)
	_, err := s.db.Collection(s.leases).UpdateOne(context.Background(), document.ByKey(key), bson.A{document.Op("$set", bson.D{
		{Key: "expiresAt", Value: past},
		{Key: "holds", Value: document.Op("$map", bson.D{{Key: "input", Value: "$holds"}, {Key: "in", Value: document.Op("$mergeObjects", bson.A{"$$this", document.Op("e", past)})}})},
	})})
	must(t, err)
}

// TestP21_GuardsOfAPhase: guarded transactions of readers and slots do not wait for each other,
// nor do joins, renewals and gates wait for them; an exclusive grant waits for all of them, and
// after it none can be guarded.
func TestP21_GuardsOfAPhase(t *testing.T) {
	t.Parallel()
	s := shared(t)
	must(t, add(t.Context(), s, "first")) // two transactions that make a collection conflict
	a, b := granted(t, s, guardedOf(readerOf("k"))), granted(t, s, guardedOf(readerOf("k")))
	c := granted(t, s, guardedOf(slotOf("k", 3)))
	sa, ctxA := guardedTx(t, s, a)
	sb, ctxB := guardedTx(t, s, b)
	sc, ctxC := guardedTx(t, s, c)
	d := granted(t, s, guardedOf(readerOf("k")))
	for _, h := range []driver.Hold{a, b, c, d} {
		if st := renew(t, s, h); st != driver.Alive {
			t.Errorf("P21: renewal of mode %v under a guarded transaction: %v", h.Mode, st)
		}
	}
	expireAll(t, s, "k")
	for i, tx := range []struct {
		sess *mongo.Session
		ctx  context.Context
	}{{sa, ctxA}, {sb, ctxB}, {sc, ctxC}} {
		if r := acquire(t, s, request("k")); r.Status != driver.Pinned {
			t.Fatalf("P21: a takeover while %d guarded transactions are open: %+v", 3-i, r)
		}
		w := standerOf("k")
		for range 2 { // it goes on to stand before all others
			if r := acquire(t, s, w); r.Status != driver.Pinned || r.Place != 1 {
				t.Errorf("P19, P21: a waiting takeover while %d guarded transactions are open: %+v", 3-i, r)
			}
			denied(t, s, readerOf("k"))
			w.Pinned = true
		}
		release(t, s, undoOf(w))
		must(t, tx.sess.CommitTransaction(tx.ctx))
	}
	w := granted(t, s, request("k"))
	for _, h := range []driver.Hold{a, b, c, d} {
		if passes(t, s, h) {
			t.Errorf("P21: a transaction of mode %v is guarded after an exclusive grant", h.Mode)
		}
	}
	release(t, s, w)
	e := granted(t, s, guardedOf(readerOf("k")))
	if !passes(t, s, e) {
		t.Error("a reader of the next phase cannot be guarded")
	}
	if passes(t, s, a) {
		t.Error("P21: a reader is guarded in a later phase")
	}
	release(t, s, e)
	// A release gives a busy server no time for the fence, which the next exclusive grant raises.
	for end := time.Now().Add(testserver.Patience(t)); passes(t, s, e) && time.Now().Before(end); {
		e = granted(t, s, guardedOf(readerOf("k")))
		release(t, s, e)
	}
	if passes(t, s, e) {
		t.Error("a reader that was released can be guarded")
	}
}

// TestP21_SlotAfterSlot: the next hold of a slot waits for the guarded transaction of the one
// before, holds of other slots do not.
func TestP21_SlotAfterSlot(t *testing.T) {
	t.Parallel()
	s := shared(t)
	a := granted(t, s, guardedOf(slotOf("k", 1)))
	sess, ctx := guardedTx(t, s, a)
	expireAll(t, s, "k")
	if r := acquire(t, s, slotOf("k", 1)); r.Status != driver.Pinned {
		t.Fatalf("P21: the next of a slot whose guarded transaction is open: %+v", r)
	}
	other := slotOf("k", 2)
	other.Slot = 1
	granted(t, s, other)
	must(t, sess.CommitTransaction(ctx))
	next := granted(t, s, guardedOf(slotOf("k", 1)))
	if next.Slot != a.Slot || next.Token < a.Token+driver.TokenRange {
		locktest.Breach(t, "P20", "slot %d with token %d after %d with %d", next.Slot, next.Token, a.Slot, a.Token)
	}
	if passes(t, s, a) {
		t.Error("P21: a slot is guarded after the next of it")
	}
	if !passes(t, s, next) {
		t.Error("the next of a slot cannot be guarded")
	}
}

// TestP4_PhaseAfterAGuardedWriter: no reader or slot is granted while a guarded transaction of
// the exclusive holder before is open, whoever of them comes first.
func TestP4_PhaseAfterAGuardedWriter(t *testing.T) {
	t.Parallel()
	s := shared(t)
	w := granted(t, s, guardedOf(request("k")))
	sess, ctx := guardedTx(t, s, w)
	release(t, s, w)
	for _, q := range []driver.Request{readerOf("k"), guardedOf(readerOf("k")), slotOf("k", 2), readerOf("k")} {
		if r := acquire(t, s, q); r.Status != driver.Pinned {
			t.Errorf("P4: mode %v while a guarded transaction of a writer is open: %+v", q.Mode, r)
		}
	}
	must(t, sess.CommitTransaction(ctx))
	granted(t, s, readerOf("k"))
	if passes(t, s, w) {
		t.Error("P4: a writer is guarded in the phase after it")
	}
}

// TestP21_ForceAndReap end the guards of a phase too.
func TestP21_ForceAndReap(t *testing.T) {
	t.Parallel()
	s := shared(t)
	a, b := granted(t, s, guardedOf(readerOf("k"))), granted(t, s, guardedOf(slotOf("k", 2)))
	i, err := s.ForceRelease(patient(t), "k")
	must(t, err)
	if i.Readers != 1 || i.Slots != 1 || i.Pinned {
		t.Errorf("a forced release says %+v", i)
	}
	for _, h := range []driver.Hold{a, b} {
		if passes(t, s, h) {
			t.Errorf("P21: mode %v is guarded after a forced release", h.Mode)
		}
	}
	c := granted(t, s, guardedOf(readerOf("k")))
	expireAll(t, s, "k")
	age(t, s, "k", 48*time.Hour)
	if n, err := s.Reap(t.Context(), 24*time.Hour); n != 1 || err != nil {
		t.Errorf("a phase that is long over: %d reaped, %v", n, err)
	}
	if passes(t, s, c) {
		t.Error("P21: a reader is guarded after its key was reaped")
	}
}

// TestFencesOfReadersGo with their holds; what a crashed one leaves, the next exclusive grant
// removes when it is old.
func TestFencesOfReadersGo(t *testing.T) {
	t.Parallel()
	s := shared(t)
	count := func() int64 {
		n, err := s.db.Collection(s.fences).CountDocuments(t.Context(), document.Op("_id.h", document.Op("$exists", true)))
		must(t, err)
		return n
	}
	for range 5 {
		release(t, s, granted(t, s, guardedOf(readerOf("k"))))
	}
	denied(t, s, guardedOf(readerOf(granted(t, s, request("other")).Key)))
	if n := count(); n != 0 {
		t.Errorf("%d fences of readers are left after their release", n)
	}
	granted(t, s, guardedOf(readerOf("k")))
	_, err := s.db.Collection(s.fences).UpdateMany(t.Context(), document.Op("_id.h", document.Op("$exists", true)),
		document.Op("$set", document.Op("at", time.Now().Add(-2*time.Hour))))
	must(t, err)
	expireAll(t, s, "k")
	release(t, s, granted(t, s, request("k")))
	if n := count(); n != 0 {
		t.Errorf("%d fences of readers are left two hours after", n)
	}
}

// TestP21_LateFence: a slot's fence that comes after a later exclusive grant does not make a
// guard fit: the acquire sees that the hold is gone.
func TestP21_LateFence(t *testing.T) {
	t.Parallel()
	s := shared(t)
	h := granted(t, s, guardedOf(slotOf("k", 1)))
	states, err := s.statesOf(t.Context(), []driver.Hold{h}, nil)
	must(t, err)
	q := guardedOf(slotOf("k", 1))
	q.ID = h.ID
	g := driver.Result{Status: driver.Granted, Token: h.Token, Stored: h.Stored, Slot: h.Slot, Phase: h.Phase}
	must(t, s.raiseFences(t.Context(), q, states["k"], g, nil, time.Minute))        // in time
	_, err = s.db.Collection(s.fences).DeleteOne(t.Context(), fence.BySlot("k", 0)) // as if it had not been made yet
	must(t, err)
	expireAll(t, s, "k")
	release(t, s, granted(t, s, request("k")))
	if err := s.raiseFences(t.Context(), q, states["k"], g, nil, time.Minute); err == nil {
		t.Error("P21: a slot whose fence came late is granted")
	}
}

// TestP21_GuardOverSeveralModes: one command guards a reader, a slot and an exclusive hold, of one
// key or of several; each of them keeps out what it excludes, and the one that is over is named.
func TestP21_GuardOverSeveralModes(t *testing.T) {
	t.Parallel()
	s := shared(t)
	slot := []rowlock.Option{rowlock.Slots(1), rowlock.Guarded()}
	reader := []rowlock.Option{rowlock.Shared(), rowlock.Guarded()}
	alone := []rowlock.Option{rowlock.Guarded()}
	c, other := locker(t, s, rowlock.Options{}), locker(t, s, rowlock.Options{})
	get := func(key string, opts []rowlock.Option) *rowlock.Lease {
		l, err := c.Acquire(patient(t), key, opts...)
		must(t, err)
		return l
	}
	leases := []*rowlock.Lease{get("a", reader), get("a", slot), get("b", slot), get("e", alone)}
	sess, ctx := begin(t, s)
	before := s.Statements()
	must(t, s.Guard(ctx, leases[3], leases[:3]...))
	if n := s.Statements() - before; n != 1 {
		t.Errorf("a guard of four leases took %d commands", n)
	}
	l, err := other.TryAcquire(patient(t), "a", reader...)
	if err != nil {
		t.Errorf("P21: a reader beside a guarded reader and slot: %v", err)
	}
	must(t, l.Release(patient(t)))
	for _, l := range leases {
		must(t, l.Release(patient(t)))
	}
	for _, next := range []struct {
		key  string
		opts []rowlock.Option
	}{{"a", alone}, {"a", slot}, {"b", alone}, {"b", slot}, {"e", alone}, {"e", reader}} {
		var held *rowlock.HeldError
		if _, err := other.TryAcquire(patient(t), next.key, next.opts...); !errors.As(err, &held) || !held.Pinned {
			t.Errorf("P21: %q, %d options, beside a guard over several modes: %v, want it pinned", next.key, len(next.opts), err)
		}
	}
	must(t, sess.CommitTransaction(ctx))
	for i, opts := range [][]rowlock.Option{reader, slot, slot, alone} {
		key := leases[i].Key()
		lost := get(key, opts)
		beside := get("x", alone)
		_, err := s.ForceRelease(patient(t), key)
		must(t, err)
		sess, ctx := begin(t, s)
		var why *rowlock.LostError
		if err := s.Guard(ctx, beside, lost); !errors.As(err, &why) || why.Key != key || why.Reason != rowlock.ReasonForced {
			t.Errorf("P21: a guard over two leases of which that of %q was ended by force: %v", key, err)
		}
		must(t, sess.AbortTransaction(ctx))
		must(t, beside.Release(patient(t)))
	}
}
