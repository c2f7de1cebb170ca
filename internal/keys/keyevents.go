package keys

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/grant"
	"github.com/rowlock/rowlock/internal/key"
	"github.com/rowlock/rowlock/internal/logs"
	"github.com/rowlock/rowlock/internal/undo"
)

// The events of a key that come from its attempts, probes and grants. Those of its line are in inline.go, those of the server's
// queue in serverqueue.go.

// answered moves the key after the answer to an attempt for a caller that asked for a.
// gate is the ID of the attempt if its gate stands, took how long it took, ctx is that caller's.
func (k *keyEntry) answered(ctx context.Context, a Ask, got grant.Used, err error, gate driver.HoldID, took time.Duration) {
	t := k.t
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.liner != nil {
		t.slowest.note(took, t.Now())
	}
	var before undo.Left
	if k.sent != nil {
		t.attempts.remove(k.sent)
		before = k.sent.before
	}
	if k.givenUp {
		k.givenUp = false
		t.givenUpEnds(k.id)
	}
	k.sent = nil
	granted := got.Grant != nil
	stood := k.place.stood
	if granted || k.queue != nil {
		k.leaveQueue()
	}
	held := Refused(err)
	switch {
	case t.liner == nil:
	case held == nil && !granted && stood:
		if !driver.IsNotApplied(err) {
			k.place.openAt = max(t.Now(), 1)
		}
	case granted:
		if k.placeServed(); !slices.Contains(k.grants, got.Grant) { // it has ended meanwhile
			t.undoLateAttempt(got.Grant, grant.Outcome{Lost: true})
		}
	case held == nil:
		k.place = inLine{}
	case held.place == 0 && held.Pinned && stood: // where it stands is not known
	case held.place == 0 && !held.apart:
		if stood {
			k.leaveLine() // in case it stands after all
		}
		k.place = inLine{}
	default:
		k.place.stood = k.place.stood || held.place > 0
	}
	if granted || held != nil {
		k.fails(false)
		t.Report.Acquire.OK()
		k.gate = gate // a grant ends it
		if t.closed || len(k.waiters) == 0 {
			k.clearGate()
		}
	}
	switch {
	case granted:
		k.granted(got, a)
	case len(k.waiters) == 0:
		k.leaveLine()
		t.forget(k)
	case errors.Is(err, driver.ErrClosed) || driver.IsLasting(err):
		k.pop(none, err)
		k.step(key.Event{Kind: key.Left})
		if len(k.waiters) > 0 {
			k.step(key.Event{Kind: key.Again}) // the next caller gets the error of an attempt of its own
		}
	case held != nil:
		if !held.mine {
			k.noteRefusal(held, before)
		}
		k.step(key.Event{
			Kind: key.Refused, Left: held.Left, Pinned: held.Pinned, Apart: held.apart,
			Phase: held.Shared, Gated: gate != driver.HoldID{},
			Place: held.place, Standing: held.Standing, Stands: held.mine,
		})
	default:
		k.noteCause(err)
		k.fails(true)
		t.Report.Acquire.Fail(ctx, 0, logs.Attrs(k.id.Name, k.id.Mode, "err", err)...)
		k.step(key.Event{Kind: key.Failed, Silent: driver.IsSilent(err), Took: took})
	}
}

// granted gives the grant of an attempt for a to the caller that is next, if that asked for the same: the one that it was for may have
// left. Then the machine is told. Called under Table.mu.
func (k *keyEntry) granted(got grant.Used, a Ask) {
	served := k.serve(got, a)
	if served == 0 {
		k.t.giveBack(got)
	}
	k.step(key.Event{Kind: key.Granted, Served: served})
	if len(k.waiters) == 0 {
		k.stop()
	}
}

// serve gives the grant of an attempt for a to the caller that is next, and to all readers that asked for the same a user of it each. It
// returns how many callers it served.
func (k *keyEntry) serve(got grant.Used, a Ask) (served int) {
	next := 0
	if k.id.Mode != driver.Exclusive { // they have no order
		next = slices.IndexFunc(k.waiters, func(w *Waiter) bool { return w.Ask == a })
	}
	if next < 0 || len(k.waiters) == 0 || k.waiters[next].Ask != a {
		return 0
	}
	k.popAt(next, got)
	served = 1
	for i := 0; k.id.Mode == driver.Shared && i < len(k.waiters); {
		if k.waiters[i].Ask != a {
			i++
			continue
		}
		beside := k.t.beside(got.Grant, a.Terms)
		if beside == none {
			break
		}
		k.popAt(i, beside)
		served++
	}
	return served
}

// giveBack ends a grant that reached no caller.
func (t *Table) giveBack(got grant.Used) {
	t.Store.Work.Fork(func() { got.Grant.EndUnwanted(got.User) })
}

// probed moves the key after a probe of it. before: see Table.metOwn.
func (k *keyEntry) probed(info driver.Info, err error, before undo.Left) {
	switch {
	case k.Mode != key.Resting || k.probe.index > 0 || len(k.waiters) == 0:
		return // moved on meanwhile
	case err != nil:
		k.probeFailed(err, 0)
		return
	}
	k.fails(false)
	free := k.freeFor(info)
	if !free {
		k.noteRefusal(&Refusal{
			Owner: info.Owner, Left: info.Left, Pinned: info.Pinned,
			Shared: info.InPhase() && k.id.Mode == driver.Exclusive,
		}, before)
	}
	k.step(key.Event{
		Kind: key.Probed, Free: free, Kept: info.Kept && !info.InPhase(), Left: info.Left, Pinned: info.Pinned,
		Hint: info.Wanted, Phase: info.InPhase(), Gated: info.Gated,
	})
}

// probeFailed notes that a probe or a look, which took so long, was not answered.
func (k *keyEntry) probeFailed(err error, took time.Duration) {
	k.noteCause(err)
	k.fails(true)
	k.t.Report.Acquire.Fail(context.Background(), 0, logs.Attrs(k.id.Name, k.id.Mode, "err", err)...)
	k.step(key.Event{Kind: key.ProbeFailed, Lasting: driver.IsLasting(err), Silent: driver.IsSilent(err), Took: took})
}

// grantBegan notes that a grant of this client has begun. Called under Table.mu.
func (t *Table) grantBegan(g *grant.Grant, e key.Event) { t.key(idOf(g)).grantBegan(g, e) }

func (k *keyEntry) grantBegan(g *grant.Grant, e key.Event) {
	k.grants = append(k.grants, g)
	k.t.Observers.wake(k.id.Name)
	e.Kind = key.Began
	k.step(e)
}

// grantReleasing notes that the release of a grant is about to be sent. It reports whether it
// is of use to know whether another wants the key, and which request is to stand in the line from then on.
func (t *Table) grantReleasing(g *grant.Grant) (asks bool, next *driver.Request) {
	t.mu.Lock()
	defer t.mu.Unlock()
	k := t.keys[idOf(g)]
	if k == nil {
		return false, nil
	}
	if t.liner != nil {
		return false, k.next()
	}
	return k.id.Mode != driver.Shared && k.queue.Asks(t.Now(), k.env()), nil
}

// grantEnded notes that a grant has ended, and that its release was answered.
func (t *Table) grantEnded(g *grant.Grant, o grant.Outcome) {
	t.mu.Lock()
	defer t.mu.Unlock()
	id := idOf(g)
	t.Observers.wake(id.Name)
	k := t.keys[id]
	if k == nil {
		return
	}
	if i := slices.Index(k.grants, g); i >= 0 {
		k.grants = slices.Delete(k.grants, i, i+1)
	}
	k.noteSlot(g)
	k.released(o)
	t.undoLateAttempt(g, o)
	if k.line != nil {
		k.noteUsual()
	}
	k.step(key.Event{
		Kind: key.Ended, Lost: o.Lost, Hint: o.Hint, Known: o.Known,
		Stands: o.Stands && o.Next == k.place.id, Place: o.Place, Standing: o.Standing,
	})
	if o.Next != (driver.HoldID{}) && k.Mode == key.Trying && k.sent == nil { // the attempt that waited for this answer
		k.do(key.Action{Do: key.Try})
	}
	if t.liner != nil && k.Held == 0 {
		k.leaveQueue()
		k.endTurn()
	}
	t.forget(k)
	t.wakeOthers(id)
}

// fails notes whether the database answers about the key.
func (k *keyEntry) fails(now bool) {
	if !now {
		for _, w := range k.waiters {
			if w.Loop != nil {
				w.Loop.Worked()
			}
		}
	}
	switch {
	case now && !k.failing:
		k.t.Report.Acquire.More(1)
	case !now && k.failing:
		k.t.Report.Acquire.Less(1)
	}
	k.failing = now
}

// noteCause notes why the key cannot be had now, for the error of a wait that ends.
func (k *keyEntry) noteCause(err error) {
	for _, w := range k.waiters {
		w.Last, w.metOwn = err, false
		if w.noRoom != nil && w.full == nil && driver.IsNoRoom(err) {
			w.full = err
			w.noRoom <- struct{}{}
		}
	}
}

// noteRefusal is noteCause of an attempt or a probe that was told that the key is held. before: see metOwn.
func (k *keyEntry) noteRefusal(held *Refusal, before undo.Left) {
	own := k.t.metOwn(k.id, held, before)
	for _, w := range k.waiters {
		w.Last, w.metOwn = held, own
	}
}
