package keys

import (
	"context"
	"slices"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/grant"
	"github.com/rowlock/rowlock/internal/key"
	"github.com/rowlock/rowlock/internal/repeat"
	"github.com/rowlock/rowlock/internal/undo"
)

// In a Store with lines (driver.Liner) an entry whose callers wait stands in the line of its key, with one hold ID, whichever of
// its callers is next. The attempt that was refused made the ID; the same attempt again refreshes the place. Looks (prober.go)
// tell when the key was passed to it.

// inLine is what an entry of the table has in the line of its key. Guarded by Table.mu.
type inLine struct {
	id         driver.HoldID // of the request that stands, or is about to; zero: none
	stood      bool          // the database has said that it stands
	releasing  bool          // a release is on its way that adds it
	openAt     time.Duration // when an attempt with it was last given up without an answer; 0: none was
	ttl, keep  time.Duration // the longest that its attempts have asked for
	confirming bool          // the key was passed to it, and a renewal is on its way before a caller is told
}

// stand makes an attempt one that stands in the line, or goes on to stand there. Called under Table.mu.
func (k *keyEntry) stand(q *driver.Request) {
	now := k.t.Now()
	q.Stand, q.EntryTime = true, k.line.EntryTime(now)
	q.Claim = max(driver.MinClaim, min(k.line.Claim(k.t.slowest.is(now)), q.TTL))
	if k.place.id == (driver.HoldID{}) {
		k.place = inLine{id: q.ID}
	}
	q.ID, k.place.ttl, k.place.keep = k.place.id, max(k.place.ttl, q.TTL), max(k.place.keep, q.Keep)
}

// leaveLine gives the place in the line up. Called under Table.mu, when no attempt is on its way.
func (k *keyEntry) leaveLine() {
	p := k.place
	if p.id == (driver.HoldID{}) || p.releasing || p.confirming {
		return
	}
	k.place = inLine{}
	k.t.giveUpPlace(k.id, p, p.stood)
}

// giveUpPlace takes a request out of a line. known: the statement that made it stand was answered.
func (t *Table) giveUpPlace(id ID, p inLine, known bool) {
	task := undo.Task{
		Hold:  driver.Hold{Key: id.Name, ID: p.id, Mode: id.Mode, Slot: -1, TTL: driver.EntryTime, Undo: true},
		Place: true, Acknowledged: known && p.openAt == 0, MayCome: p.openAt > 0, Sent: t.Now(),
	}
	if !task.Acknowledged { // an attempt that comes may get the key
		task.Hold.TTL, task.Hold.Keep = max(driver.EntryTime, p.ttl), p.keep
	}
	t.Unresolved.Add(task)
}

// placeServed notes that the request that stood has the key. An attempt with it that was not answered may still come, after the hold has
// ended, and would get the key for nobody: see undoLateAttempt. Called under Table.mu.
func (k *keyEntry) placeServed() {
	if p := k.place; p.openAt > 0 {
		if k.t.mayCome == nil {
			k.t.mayCome = make(map[driver.HoldID]inLine)
		}
		k.t.mayCome[p.id] = p
	}
	k.place = inLine{}
}

// undoLateAttempt takes back what an attempt may still get whose hold has ended. While the hold may be there, or MinHold keeps the key, that
// is not touched: the attempt would find it, and make nothing new. Called under Table.mu.
func (t *Table) undoLateAttempt(g *grant.Grant, o grant.Outcome) {
	p, is := t.mayCome[g.Hold.ID]
	if !is {
		return
	}
	delete(t.mayCome, g.Hold.ID)
	h := g.Hold
	h.Undo, h.TTL, h.Keep = true, max(h.TTL, p.ttl), max(h.Keep, p.keep)
	over := time.Duration(0)
	if o.Lost || o.Unknown || h.Keep > 0 {
		over = t.Now() + max(h.TTL, h.Keep)
	}
	t.Unresolved.Add(undo.Task{Hold: h, MayCome: true, Sent: p.openAt, NotBefore: over})
}

// next is the request that stands in the line from the release of a grant on; nil: none does. Called under Table.mu.
func (k *keyEntry) next() *driver.Request {
	t := k.t
	if t.closed || len(k.waiters) == 0 || k.Mode != key.Resting || k.place.id != (driver.HoldID{}) {
		return nil
	}
	q := t.newRequest(&k.waiters[0].Ask, notPinned, true)
	k.stand(&q)
	k.place.releasing = true
	return &q
}

// released notes what the release of a grant has said of the request that was to stand from then on. Called under Table.mu.
func (k *keyEntry) released(o grant.Outcome) {
	if o.Next == (driver.HoldID{}) || o.Next != k.place.id {
		return
	}
	k.place.releasing, k.place.stood = false, o.Stands
	switch {
	case !o.Stands && o.Unknown:
		k.leaveLine()
	case !o.Stands:
		k.place = inLine{}
	case len(k.waiters) == 0:
		k.leaveLine()
	}
}

// noteUsual notes how long this client had the key: so long others most likely have one of which no more is known. Called under Table.mu.
func (k *keyEntry) noteUsual() {
	if t := k.t; k.line.Held == 1 && k.line.Since > 0 {
		held := t.Now() - k.line.Since
		if t.usual > 0 {
			held = t.usual + (held-t.usual)/4
		}
		t.usual = held
	}
}

// look asks for the keys of entries, and moves their machines.
func (t *Table) look(due []probed) {
	entries := make([]driver.Entry, len(due))
	t.mu.Lock()
	for i, q := range due {
		entries[i] = driver.Entry{Key: q.k.id.Name, ID: q.k.place.id, Mode: q.k.id.Mode}
		if len(q.k.waiters) > 0 {
			entries[i].Slots = q.k.waiters[0].Ask.Slots
		}
	}
	t.mu.Unlock()
	views, sent, got, err := t.Store.Look(t.liner, entries, probeTimeout)
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, q := range due {
		q.k.probing = false
		v := driver.View{}
		if err == nil {
			v = views[i]
		}
		t.prober.tries.open = !v.Free && !v.Mine // what it tries is to stand again
		q.k.looked(entries[i].ID, v, err, q.before, sent, got)
	}
	t.prober.sendTries()
	if err == nil {
		t.Report.Acquire.OK()
	}
}

// looked moves the key after a look for the request with this ID. before: see Table.metOwn.
func (k *keyEntry) looked(id driver.HoldID, v driver.View, err error, before undo.Left, sent, got time.Duration) {
	switch {
	case k.Mode != key.Resting || k.probe.index > 0 || len(k.waiters) == 0 || id != k.place.id:
		return // moved on meanwhile
	case k.place.releasing:
		return // it may have come before the release that makes it stand, whose answer says what is next
	case err != nil:
		k.probeFailed(err, got-sent)
		return
	}
	k.fails(false)
	if v.Mine {
		k.t.prober.earn()
		k.passed(v, sent, got)
		return
	}
	if !v.Free || v.Pinned {
		k.noteRefusal(&Refusal{
			Owner: v.Owner, Left: v.Left, Pinned: v.Pinned, Standing: v.Standing,
			Shared: v.Shared && k.id.Mode == driver.Exclusive,
		}, before)
	}
	k.place.stood = k.place.stood || v.Place > 0
	k.listen(v)
	if v.Place == 0 && !v.Free { // the entry is over: a new one has another ID
		if k.place.openAt > 0 {
			k.leaveLine()
		}
		k.place = inLine{}
	}
	k.step(key.Event{
		Kind: key.Probed, Free: v.Free, Kept: v.Kept, Left: v.Left, Pinned: v.Pinned, Age: v.Age,
		Place: v.Place, Standing: v.Standing, Took: got - sent,
	})
}

// listen has the server wake this client, where the store can do that and this client is the first of the line; no other one
// asks for it. Called under Table.mu.
func (k *keyEntry) listen(v driver.View) {
	switch first := v.Place == 1 && !v.Free && !v.Kept; {
	case k.t.turner == nil || k.id.Mode != driver.Exclusive:
	case v.Place != 1 && k.Held == 0:
		k.leaveQueue()
		k.endTurn()
	case first && k.leave == nil && k.turn == nil:
		k.waitTurn()
	}
}

// marginOf is how long before its end a passed hold is not trusted any more: the margin that was asked for would leave
// nothing of most claims.
func (t *Table) marginOf(terms grant.Terms, claim time.Duration) time.Duration {
	if t.OwnMargin && terms.Margin < claim/4 {
		return terms.Margin
	}
	return claim / 10
}

// confirms reports whether a renewal must come before a caller is told that it was passed the key: it asked for what only a
// renewal can write, or wants a margin that a claim does not have, or little is left.
func (t *Table) confirms(g *grant.Grant) bool {
	terms := g.Terms
	left, _ := g.Live()
	return terms.Keep() > 0 || terms.NoRenew || terms.Guarded || terms.MaxHold > 0 ||
		t.OwnMargin && terms.Margin > left/4 || left < leastClaim
}

// leastClaim is how much trust in a passed key is worth telling of without a renewal.
const leastClaim = 200 * time.Millisecond

// passed takes a key on that was passed to this client, as a look has found that was sent then. Called under Table.mu.
func (k *keyEntry) passed(v driver.View, sent, got time.Duration) {
	t := k.t
	i := 0
	if k.id.Mode == driver.Slot {
		i = slices.IndexFunc(k.waiters, func(w *Waiter) bool { return w.Ask.Slots > v.Slot })
	}
	if i < 0 { // those that it was for have left
		k.leaveLine()
		k.step(key.Event{Kind: key.Again})
		return
	}
	a, ctx, id := k.waiters[i].Ask, k.waiters[i].Ctx, k.place.id
	margin := t.marginOf(a.Terms, v.Left)
	left := sent + v.Left - margin - got
	if left <= 0 {
		t.giveUpPlace(k.id, k.place, true)
		k.place = inLine{}
		k.step(key.Event{Kind: key.Failed})
		return
	}
	k.placeServed()
	new := t.NewUser(nil, sent, v.Token)
	*new.Grant = grant.New(a.Key, id, a.Terms, sent, driver.Result{Token: v.Token, Stored: v.Stored, Slot: v.Slot, Phase: v.Phase})
	new.Grant.WasPassed(margin, sent, v)
	t.Renewer.Add(new.Grant, new.User)
	k.grantBegan(new.Grant, key.Event{Standing: v.Standing, Age: v.Age})
	k.deliver(ctx, a, new, k.waiters[i].noRoom != nil)
}

// deliver gives a passed grant to the caller that is next, at once or after a renewal: one that has other keys has it
// for its whole TTL from the beginning. Called under Table.mu.
func (k *keyEntry) deliver(ctx context.Context, a Ask, new grant.Used, group bool) {
	t := k.t
	if !group && !t.confirms(new.Grant) {
		k.give(ctx, a, new)
		return
	}
	k.line.Confirm()
	k.place.confirming, k.queued = true, true
	t.Store.Work.Fork(func() {
		err := confirm(t.Open, new.Grant)
		t.mu.Lock()
		defer t.mu.Unlock()
		k.place.confirming = false
		if _, live := new.Grant.Live(); err == nil && live {
			k.give(ctx, a, new)
			return
		}
		t.giveBack(new)
		if len(k.waiters) == 0 {
			t.forget(k)
			return
		}
		if err != nil {
			k.noteCause(err)
		}
		k.step(key.Event{Kind: key.Failed})
	})
}

// confirm renews a grant that was passed on until the database says that it has what its caller asked for.
func confirm(ctx context.Context, g *grant.Grant) (err error) {
	for {
		if err = g.Renew(ctx); err == nil {
			return nil
		}
		if _, live := g.Live(); !live || repeat.Sleep(ctx, key.FirstProbe*10) != nil {
			return err
		}
	}
}

// give gives a passed grant to the caller that is next. Called under Table.mu.
func (k *keyEntry) give(ctx context.Context, a Ask, got grant.Used) {
	t := k.t
	if t.closed {
		t.giveBack(got)
		return
	}
	t.Report.Acquire.OK()
	k.granted(got, a)
}

// slowest is how long a statement that commits may take: the slowest of the last minute.
type slowest struct {
	now, before time.Duration
	since       time.Duration
}

const slowestWindow = 30 * time.Second

func (s *slowest) turn(now time.Duration) {
	if d := now - s.since; d >= slowestWindow {
		s.before, s.now, s.since = s.now, 0, now
		if d >= 2*slowestWindow {
			s.before = 0
		}
	}
}

func (s *slowest) note(took, now time.Duration) {
	s.turn(now)
	s.now = max(s.now, took)
}

func (s *slowest) is(now time.Duration) time.Duration {
	s.turn(now)
	return max(s.now, s.before)
}
