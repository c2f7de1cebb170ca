package memory

import (
	"time"

	"github.com/rowlock/rowlock/driver"
)

// phase is a time in which a key is held by readers and slots (rules 15 to 17 of package
// driver). It lasts, also when nobody is left in it, until an exclusive request takes the key.
type phase struct {
	token  int64 // the readers'
	top    int64 // the largest that was granted in it
	began  time.Time
	ended  time.Time // when the last hold in it ended
	shares map[driver.HoldID]*share
	slots  map[int]int64 // the token of each slot's last hold

	gate      driver.HoldID // zero: none
	gateUntil time.Time
	gateAfter time.Time // no gate is left before
}

// share is one hold in a phase, until a write ends it.
type share struct {
	times
	mode  driver.Mode
	slot  int
	owner string
	token int64
}

// noHold is the hold ID of a row in a phase: no exclusive hold has it.
var noHold = driver.HoldID{0: 0xff, 15: 0xfe}

// top is the largest token of the key that was granted.
func (r *row) top() int64 {
	if r.phase != nil {
		return max(r.token, r.phase.top)
	}
	return r.token
}

// join grants a request of mode Shared or Slot, or refuses it. It takes no slot below from.
func (s *Store) join(r *row, q driver.Request, from int, now time.Time) driver.Result {
	refuse := func(left time.Duration, owner string) driver.Result {
		r.want(q, now)
		return driver.Result{Status: driver.Held, Left: left, Owner: owner, Shared: r.phase != nil}
	}
	p := r.phase
	if p == nil {
		if left := r.until().Sub(now); left > 0 {
			return refuse(left, r.owner)
		}
		if len(s.open[q.Key]) > 0 {
			return driver.Result{Status: driver.Pinned, Owner: r.owner}
		}
		p = r.beginPhase(q, now)
	}
	if left := p.gateLeft(now); left > 0 {
		return refuse(left, "")
	}
	h := &share{mode: q.Mode, owner: q.Owner, token: p.token}
	h.acquiredAt, h.expiresAt = now, now.Add(q.TTL)
	if q.Mode == driver.Slot {
		slot, left, pinned := s.freeSlot(p, q, from, now)
		switch {
		case slot >= 0:
		case pinned:
			return driver.Result{Status: driver.Pinned}
		default:
			return refuse(left, "")
		}
		h.slot, h.token = slot, nextToken(max(p.token, p.slots[slot]), now)
		if q.Keep > 0 {
			h.keepUntil = now.Add(q.Keep)
		}
		p.endSlot(slot, now) // one that has expired
		p.slots[slot], p.top = h.token, max(p.top, h.token)
	}
	p.shares[q.ID], r.owner = h, q.Owner
	hint := r.hint(now)
	if hint.Client == q.Client {
		r.wantedBy, hint = 0, driver.Hint{}
	}
	result := p.granted(h)
	result.Wanted = hint
	return result
}

// beginPhase begins a phase of a key that is free.
func (r *row) beginPhase(q driver.Request, now time.Time) *phase {
	token := nextToken(r.token, now)
	p := &phase{
		token: token, top: token, began: now, ended: now,
		shares: make(map[driver.HoldID]*share), slots: make(map[int]int64),
	}
	if q.Waited {
		p.gateAfter = now.Add(driver.GateAfter)
	}
	*r = row{id: noHold, token: token, wantedBy: r.wantedBy, wantedTo: r.wantedTo, phase: p, line: r.line}
	r.acquiredAt, r.releasedAt = now, now
	return p
}

func (p *phase) granted(h *share) driver.Result {
	return driver.Result{Status: driver.Granted, Token: h.token, Stored: h.token, Slot: h.slot, Phase: p.token}
}

func (p *phase) end(id driver.HoldID, now time.Time) {
	delete(p.shares, id)
	p.ended = now
}

// find is the live share that h names.
func (r *row) find(h driver.Hold) *share {
	if r == nil || r.phase == nil {
		return nil
	}
	found := r.phase.shares[h.ID]
	if found == nil || !found.releasedAt.IsZero() {
		return nil
	}
	return found
}

// releaseShare ends a share. A reader leaves nothing, a slot what keeps it.
func (r *row) releaseShare(h driver.Hold, now time.Time) driver.Result {
	found := r.find(h)
	if found == nil {
		return driver.Result{Status: goneShare(r, h)}
	}
	p := r.phase
	found.keepShorter(h)
	if h.Undo || !found.keepUntil.After(now) {
		p.end(h.ID, now)
	} else {
		found.releasedAt, p.ended = now, now
	}
	return driver.Result{Status: driver.Released, Final: true, Wanted: r.hint(now)}
}

// death is when the last hold of the key was over; the reaper's grace counts from it.
func (r *row) death() time.Time {
	last := r.until()
	for _, t := range []time.Time{r.releasedAt, r.phaseEnd()} {
		if t.After(last) {
			last = t
		}
	}
	return last
}

func (r *row) phaseEnd() time.Time {
	if r.phase == nil {
		return time.Time{}
	}
	last := r.phase.ended
	for _, h := range r.phase.shares {
		if end := h.until(); end.After(last) {
			last = end
		}
	}
	return last
}

// inform adds to i what is known of the phase.
func (p *phase) inform(i *driver.Info, now time.Time) {
	taken := make(map[int]bool)
	kept := true
	for _, h := range p.shares {
		left := h.until().Sub(now)
		if left <= 0 {
			continue
		}
		if i.Readers+i.Slots == 0 || h.acquiredAt.Before(i.Since) {
			i.Since = h.acquiredAt
		}
		kept = kept && !h.releasedAt.IsZero()
		if h.mode == driver.Slot {
			taken[h.slot] = true
			i.Slots++
		} else {
			i.Readers++
		}
		if left > i.Left {
			i.Left, i.Owner = left, h.owner
		}
	}
	if i.Held = i.Readers+i.Slots > 0; i.Held {
		i.Kept = kept
		for taken[i.FreeSlot] {
			i.FreeSlot++
		}
		i.Gated = p.gate != driver.HoldID{} && p.gateUntil.After(now)
	}
}

// goneShare says why a share is not there any more.
func goneShare(r *row, h driver.Hold) driver.Status {
	switch {
	case r == nil:
		return driver.Removed
	case r.id == driver.HoldID{}:
		return driver.Forced
	case r.phase == nil || h.Phase > 0 && r.phase.token != h.Phase:
		return driver.Taken
	case h.Mode == driver.Slot && h.Phase > 0 && r.phase.slots[h.Slot] != h.Stored:
		return driver.Taken
	}
	return driver.Removed
}

// newest reports whether a guard of h may pass: no hold that excludes it was granted since.
func (r *row) newest(h driver.Hold) bool {
	switch {
	case r == nil:
		return false
	case h.Mode == driver.Exclusive:
		return r.id == h.ID
	case r.phase == nil || r.phase.token != h.Phase:
		return false
	}
	return h.Mode == driver.Shared || r.phase.slots[h.Slot] == h.Stored
}
