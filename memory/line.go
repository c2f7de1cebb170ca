package memory

import (
	"context"
	"slices"
	"time"

	"github.com/rowlock/rowlock/driver"
)

// entry is one place in the line of a key (rules 19 to 22 of package driver).
type entry struct {
	id      driver.HoldID
	mode    driver.Mode
	slots   int
	guarded bool
	claim   time.Duration
	since   time.Time
	until   time.Time
}

func (e *entry) live(now time.Time) bool {
	left := e.until.Sub(now)
	return left > 0 && left <= 2*driver.MaxEntryTime
}

// standing are the live entries; the others are dropped.
func (r *row) standing(now time.Time) []*entry {
	r.line = slices.DeleteFunc(r.line, func(e *entry) bool { return !e.live(now) })
	return r.line
}

// stand adds a request to the line, or moves the end of its entry.
func (r *row) stand(q driver.Request, now time.Time) {
	until := now.Add(q.EntryTime)
	if i := r.place(q.ID); i > 0 {
		if e := r.line[i-1]; until.After(e.until) {
			e.until = until
		}
		return
	}
	if len(r.standing(now)) < driver.MaxLine {
		r.line = append(r.line, &entry{q.ID, q.Mode, q.Slots, q.Guarded, q.Claim, now, until})
	}
}

// place is where a request stands among all entries, live or not; 0: it does not.
func (r *row) place(id driver.HoldID) int {
	return 1 + slices.IndexFunc(r.line, func(e *entry) bool { return e.id == id })
}

// leave takes the entry of a request out of the line; false: it does not stand.
func (r *row) leave(id driver.HoldID) bool {
	i := r.place(id)
	if i > 0 {
		r.line = slices.Delete(r.line, i-1, i)
	}
	return i > 0
}

// show adds the line to an answer about a request.
func (r *row) show(result *driver.Result, id driver.HoldID, now time.Time) {
	all := r.standing(now)
	result.Place, result.Standing = r.place(id), len(all)
	if len(all) > 0 {
		result.First = now.Sub(all[0].since)
	}
}

// before are the entries that stand before a request: all, if it does not stand.
func (r *row) before(id driver.HoldID, now time.Time) []*entry {
	all := r.standing(now)
	if i := r.place(id); i > 0 {
		return all[:i-1]
	}
	return all
}

// mustWait reports whether a request has to wait for the entries before it. For a slot, the slots below from are those entries'.
func mustWait(m driver.Mode, before []*entry) (wait bool, from int) {
	for _, e := range before {
		switch {
		case m == driver.Exclusive, e.mode == driver.Exclusive:
			return true, 0
		case m == driver.Slot && e.mode == driver.Slot:
			from = max(from, e.slots)
		}
	}
	return false, from
}

// passOn passes the key to the first in the line, and to those behind that can be beside it. It stops at stop, whose own
// request is about to be answered.
func (s *Store) passOn(key string, r *row, now time.Time, stop driver.HoldID) {
	all := slices.Clone(r.standing(now))
	var left []*entry // that were not passed the key
	for _, e := range all {
		if e.id == stop {
			return
		}
		wait, from := mustWait(e.mode, left)
		if wait {
			return
		}
		q := driver.Request{Key: key, ID: e.id, Mode: e.mode, Slots: e.slots, Slot: -1, TTL: e.claim, Guarded: e.guarded}
		if s.take(r, q, from, now).Status != driver.Granted {
			left = append(left, e)
			continue
		}
		r.leave(e.id)
	}
}

// Look is called by the Client that rowlock.New makes. It implements driver.Liner.
func (s *Store) Look(ctx context.Context, entries []driver.Entry) ([]driver.View, error) {
	now, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	views := make([]driver.View, len(entries))
	for i, e := range entries {
		if r := s.rows[e.Key]; r != nil {
			views[i] = s.view(r, e, now)
		} else {
			views[i].Free = true
		}
	}
	return views, nil
}

func (s *Store) view(r *row, e driver.Entry, now time.Time) driver.View {
	v := driver.View{Owner: r.owner, Age: now.Sub(r.acquiredAt)}
	var shown driver.Result
	r.show(&shown, e.ID, now)
	v.Place, v.Standing, v.First = shown.Place, shown.Standing, shown.First
	info := s.info(e.Key, r, now)
	v.Kept, v.Pinned, v.Shared, v.Left = info.Kept && !info.InPhase(), info.Pinned, info.InPhase(), info.Left
	switch {
	case e.ID == driver.HoldID{}:
	case e.Mode == driver.Exclusive && r.phase == nil && r.id == e.ID && r.releasedAt.IsZero() && info.Held:
		v.Mine, v.Token, v.Stored = true, r.token, r.token
		return v
	case r.phase != nil && r.phase.shares[e.ID] != nil:
		h := r.phase.shares[e.ID]
		if left := h.until().Sub(now); left > 0 && h.releasedAt.IsZero() {
			granted := r.phase.granted(h)
			v.Mine, v.Token, v.Stored, v.Phase, v.Slot, v.Left = true, granted.Token, granted.Stored, granted.Phase, granted.Slot, left
			v.Age = now.Sub(h.acquiredAt)
			return v
		}
	}
	switch {
	case !info.Held:
		v.Free, v.Left = true, 0
	case e.Mode == driver.Shared && info.InPhase():
		wait, _ := mustWait(e.Mode, r.before(e.ID, now))
		v.Free = !wait
	case e.Mode == driver.Slot && info.InPhase():
		wait, from := mustWait(e.Mode, r.before(e.ID, now))
		slot, left, pinned := s.freeSlot(r.phase, driver.Request{Key: e.Key, Slots: e.Slots, Slot: -1}, from, now)
		v.Free, v.Left, v.Pinned = !wait && (slot >= 0 || pinned), left, !wait && slot < 0 && pinned
	}
	return v
}
