// The rules of the seam for one hold: an acquire that finds its own hold, renewals
// that never shorten and never pass MaxHold, Keep and Undo, a released hold that
// stays released, a dead context.

package locktest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/rowlock/rowlock/driver"
)

var seam = []testCase{
	{name: "Store_Limits", run: sensibleLimits},
	{name: "Store_OwnHoldAgain", run: ownHoldAgain},
	{name: "Store_RenewNeverShortens", run: renewNeverShortens},
	{name: "Store_RenewStopsAtMaxHold", run: renewMaxHold},
	{name: "Store_KeepAndUndo", run: keepAndUndo},
	{name: "Store_ExpiryByTheServersClock", run: serversClock},
	{name: "Store_ForceRelease", run: forceRelease, needs: forcing},
	{name: "Store_ForceReleaseIf", run: forceReleaseIf, needs: forcing},
	{name: "Store_DeadContext", run: deadContext},
	{name: "Store_Guarded", run: guardedHold},
	{name: "Store_Closed", run: closedStore},
}

func sensibleLimits(t *testing.T, e *env) {
	l := e.limits
	if l.Batch < 1 || l.MinTTL <= 0 || l.LockWait < 0 || l.LockWait > 10*time.Second {
		t.Errorf("limits %+v", l)
	}
	if again := e.Open(t).Limits(); again != l {
		t.Errorf("limits are not constant: %+v and %+v", l, again)
	}
}

// ownHoldAgain repeats an acquire whose reply may have been lost: the same token,
// and nothing is changed.
func ownHoldAgain(t *testing.T, e *env) {
	s := e.Open(t)
	q := driver.Request{Key: e.key(t), ID: newID(), TTL: longTTL, Owner: "first"}
	h := grant(t, s, q)
	before := inspect(t, s, q.Key)
	again := q
	again.TTL, again.Owner = 2*longTTL, "second"
	stores := []driver.Store{s}
	if !e.limits.Heartbeat { // else only the Store that has the session knows
		stores = append(stores, e.Open(t))
	}
	for _, s := range stores {
		r := one(t, s, again)
		if r.Status != driver.Granted || r.Token != h.Token && r.Stored != h.Stored {
			t.Fatalf("an acquire that finds its own hold: %+v, want granted with token %d", r, h.Token)
		}
	}
	after := inspect(t, s, q.Key)
	if after.Left > before.Left || after.Owner != before.Owner || after.Token != before.Token || !after.Since.Equal(before.Since) {
		t.Errorf("an acquire that finds its own hold changed it:\n from %+v\n to   %+v", before, after)
	}
	if r := one(t, s, driver.Request{Key: q.Key, TTL: longTTL}); r.Status != driver.Held {
		t.Errorf("another's acquire: %v, want held", r.Status)
	}
	answer(t, s.Release, h, driver.Released)
}

// renewNeverShortens: a late repeat of an earlier renewal, or one with a shorter
// TTL, does not cut the hold.
func renewNeverShortens(t *testing.T, e *env) {
	s := e.Open(t)
	h := grant(t, s, driver.Request{Key: e.key(t), TTL: longTTL})
	late := h
	late.TTL = e.limits.MinTTL
	answer(t, s.Renew, late, driver.Alive)
	if i := inspect(t, s, h.Key); i.Left < longTTL/2 {
		t.Errorf("a renewal for %v cut a hold of %v to %v", late.TTL, longTTL, i.Left)
	}
	late.MaxHold = e.limits.MinTTL // MaxHold does not cut it either
	answer(t, s.Renew, late, driver.Alive)
	if i := inspect(t, s, h.Key); i.Left < longTTL/2 {
		t.Errorf("a renewal with MaxHold %v cut a hold of %v to %v", late.MaxHold, longTTL, i.Left)
	}
	h.TTL = 2 * longTTL
	answer(t, s.Renew, h, driver.Alive)
	if i := inspect(t, s, h.Key); i.Left <= longTTL || i.Left > 2*longTTL {
		t.Errorf("a renewal for %v left %v", h.TTL, i.Left)
	}
	answer(t, s.Release, h, driver.Released)
}

func renewMaxHold(t *testing.T, e *env) {
	s := e.Open(t)
	h := grant(t, s, driver.Request{Key: e.key(t), TTL: longTTL / 4})
	h.TTL, h.MaxHold = longTTL, longTTL/2
	r := answer(t, s.Renew, h, driver.Alive)
	i := inspect(t, s, h.Key)
	if i.Left > h.MaxHold || i.Left <= longTTL/4 {
		t.Errorf("a renewal for %v with MaxHold %v left %v", h.TTL, h.MaxHold, i.Left)
	}
	if r.Left > h.MaxHold {
		t.Errorf("a renewal with MaxHold %v says that %v are left", h.MaxHold, r.Left)
	}
	answer(t, s.Release, h, driver.Released)
	if free := inspect(t, s, h.Key); free.Held {
		t.Errorf("a released key: %+v", free)
	}
}

// keepAndUndo: a release leaves the key taken until the end of Keep, an undo does
// not; nor does the hold of a key that had no Keep.
func keepAndUndo(t *testing.T, e *env) {
	s := e.Open(t)
	q := driver.Request{Key: e.key(t), TTL: longTTL / 4, Keep: longTTL}
	h := grant(t, s, q)
	answer(t, s.Release, h, driver.Released)
	i := inspect(t, s, q.Key)
	if !i.Held || !i.Kept || i.Left < longTTL/2 || i.Left > longTTL {
		t.Errorf("a key released in its Keep of %v: %+v", longTTL, i)
	}
	if r := one(t, s, q); r.Status != driver.Held {
		t.Errorf("acquire of a kept key: %v, want held", r.Status)
	}

	q.Key, q.TTL = e.key(t), e.limits.MinTTL // without a release: the hold expires, Keep lasts
	grant(t, s, q)
	time.Sleep(2 * e.limits.MinTTL)
	if r := one(t, s, q); r.Status != driver.Held {
		t.Errorf("acquire of a key whose holder is gone in its Keep: %v, want held", r.Status)
	}

	q = driver.Request{Key: e.key(t), TTL: longTTL, Keep: longTTL}
	h = grant(t, s, q)
	h.Undo = true
	answer(t, s.Release, h, driver.Released)
	if i := inspect(t, s, q.Key); i.Held {
		t.Errorf("P6: a key whose attempt was undone: %+v", i)
	}
	next := grantAfter(t, s, h, driver.Request{Key: q.Key, TTL: longTTL})
	answer(t, s.Release, next, driver.Released)
	if i := inspect(t, s, q.Key); i.Held {
		t.Errorf("the Keep of a hold before is still there: %+v", i)
	}

	h = grant(t, s, driver.Request{Key: e.key(t), TTL: longTTL, Keep: e.short}) // that ends
	answer(t, s.Release, h, driver.Released)
	grantAfter(t, s, h, driver.Request{Key: h.Key, TTL: longTTL})
}

// serversClock: two Stores see a hold end at the same moment, its TTL after the
// grant and not before.
func serversClock(t *testing.T, e *env) {
	a, b := e.Open(t), e.Open(t)
	ttl := 2 * e.short
	began := time.Now()
	h := grant(t, a, driver.Request{Key: e.key(t), TTL: ttl})
	if i := inspect(t, b, h.Key); i.Left > ttl || i.Held && i.Token > h.Token || !i.Held && time.Since(began) < ttl-slack {
		t.Errorf("a hold of %v after %v: %+v", ttl, time.Since(began), i)
	}
	next := grantAfter(t, b, h, driver.Request{Key: h.Key, TTL: longTTL})
	if took := time.Since(began); took < ttl-slack {
		t.Errorf("P1: granted to another after %v of a TTL of %v", took, ttl)
	}
	answer(t, b.Release, next, driver.Released)
}

func forceRelease(t *testing.T, e *env) {
	s := e.Open(t)
	never := e.key(t)
	if i := force(t, s, never); i.Held || i.Token != 0 {
		t.Errorf("force release of a key that never was: %+v", i)
	}
	if i := inspect(t, s, never); i.Held {
		t.Errorf("a key that never was, after a force release: %+v", i)
	}
	h := grant(t, s, driver.Request{Key: e.key(t), TTL: longTTL, Keep: longTTL, Owner: "held"})
	before := inspect(t, s, h.Key)
	if i := force(t, s, h.Key); !i.Held || i.Owner != "held" || i.Token > h.Token || i.Token == 0 {
		t.Errorf("force release says the key was %+v, want held with token %d", i, h.Token)
	}
	if i := inspect(t, s, h.Key); i.Held || i.Token <= before.Token {
		t.Errorf("a key after a force release: %+v, want free, with a token over %d", i, before.Token)
	}
	answer(t, s.Renew, h, driver.Forced)
	answer(t, s.Release, h, driver.Forced)
	if i := force(t, s, h.Key); i.Held {
		t.Errorf("force release of a free key says it was %+v", i)
	}
	next := grantAfter(t, s, h, driver.Request{Key: h.Key, TTL: longTTL, Keep: longTTL})
	answer(t, s.Release, next, driver.Released)
	if i := force(t, s, h.Key); !i.Held || !i.Kept {
		t.Errorf("force release of a kept key says it was %+v", i)
	}
	next = grantAfter(t, s, next, driver.Request{Key: h.Key, TTL: longTTL})
	answer(t, s.Release, next, driver.Released)
}

// forceReleaseIf: a forced release of the hold that was seen ends it, whatever was renewed since, and
// ends no other, held or kept.
func forceReleaseIf(t *testing.T, e *env) {
	s := e.Open(t)
	forcer, ok := s.(driver.ForcerIf)
	if !ok {
		t.Skip("the store has no ForceReleaseIf")
	}
	refused := func(seen driver.Info) {
		t.Helper()
		if _, err := forcer.ForceReleaseIf(soon(t), seen); !errors.Is(err, driver.ErrChanged) || !driver.IsNotApplied(err) {
			t.Errorf("force release of another hold: %v, want ErrChanged, not applied", err)
		}
	}
	first := grant(t, s, driver.Request{Key: e.key(t), TTL: longTTL})
	seen := inspect(t, s, first.Key)
	refused(driver.Info{Key: e.key(t), Hold: seen.Hold, Token: seen.Token})
	other := seen
	other.Token++
	refused(other)
	other = seen
	other.Hold = newID()
	refused(other)
	answer(t, s.Renew, first, driver.Alive)
	answer(t, s.Release, first, driver.Released)
	refused(seen)

	next := grantAfter(t, s, first, driver.Request{Key: first.Key, TTL: longTTL, Owner: "next"})
	refused(seen)
	answer(t, s.Renew, next, driver.Alive)
	seen = inspect(t, s, next.Key)
	answer(t, s.Renew, next, driver.Alive)
	if i, err := forcer.ForceReleaseIf(soon(t), seen); err != nil || !i.Held || i.Owner != "next" {
		t.Errorf("force release of the hold that was seen: %+v, %v", i, err)
	}
	answer(t, s.Renew, next, driver.Forced)
	refused(seen)

	kept := grantAfter(t, s, next, driver.Request{Key: first.Key, TTL: longTTL, Keep: longTTL})
	held := inspect(t, s, kept.Key)
	answer(t, s.Release, kept, driver.Released)
	if _, err := forcer.ForceReleaseIf(soon(t), inspect(t, s, kept.Key)); err != nil {
		t.Errorf("force release of the kept key that was seen: %v", err)
	}
	if i := inspect(t, s, kept.Key); i.Held {
		t.Errorf("a kept key after its force release: %+v", i)
	}
	last := grantAfter(t, s, kept, driver.Request{Key: first.Key, TTL: longTTL})
	refused(held)
	answer(t, s.Release, last, driver.Released)
}

// deadContext: nothing is sent on a context that has ended, and the error says so.
func deadContext(t *testing.T, e *env) {
	s := e.Open(t)
	h := grant(t, s, driver.Request{Key: e.key(t), TTL: longTTL})
	other := e.key(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err1 := s.Acquire(ctx, []driver.Request{{Key: other, ID: newID(), TTL: longTTL}})
	_, err2 := s.Renew(ctx, []driver.Hold{h})
	_, err3 := s.Release(ctx, []driver.Hold{h})
	_, err4 := s.Inspect(ctx, []string{h.Key})
	for i, err := range []error{err1, err2, err3, err4} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("call %d on a dead context: %v, want its error", i, err)
		}
	}
	if driver.IsNotApplied(err1) && inspect(t, s, other).Held {
		t.Error("an acquire that was not applied has made a hold")
	}
	if driver.IsNotApplied(err3) {
		answer(t, s.Renew, h, driver.Alive)
	}
	answer(t, s.Release, h, driver.Released, driver.Removed)
}

// guardedHold: a hold for guarded transactions is a hold like any other.
func guardedHold(t *testing.T, e *env) {
	a, b := e.Open(t), e.Open(t)
	key := e.key(t)
	h := grant(t, a, driver.Request{Key: key, TTL: longTTL, Guarded: true})
	for _, guarded := range []bool{false, true, true, false} {
		if r := one(t, b, driver.Request{Key: key, TTL: longTTL, Guarded: guarded}); r.Status != driver.Held {
			t.Errorf("another's acquire of a guarded hold: %v, want held", r.Status)
		}
		answer(t, a.Renew, h, driver.Alive)
		answer(t, a.Release, h, driver.Released)
		h = grantAfter(t, a, h, driver.Request{Key: key, TTL: longTTL, Guarded: guarded})
	}
	answer(t, a.Release, h, driver.Released)
}

func closedStore(t *testing.T, e *env) {
	s := e.Open(t)
	c, ok := s.(driver.Closer)
	if !ok {
		return
	}
	h := grant(t, s, driver.Request{Key: e.key(t), TTL: longTTL})
	answer(t, s.Release, h, driver.Released)
	for range 2 {
		if err := c.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}
	_, err1 := s.Acquire(soon(t), []driver.Request{{Key: h.Key, ID: newID(), TTL: longTTL}})
	_, err2 := s.Renew(soon(t), []driver.Hold{h})
	_, err3 := s.Release(soon(t), []driver.Hold{h})
	_, err4 := s.Inspect(soon(t), []string{h.Key})
	for i, err := range []error{err1, err2, err3, err4} {
		if !errors.Is(err, driver.ErrClosed) {
			t.Errorf("call %d on a closed Store: %v, want ErrClosed", i, err)
		}
	}
}
