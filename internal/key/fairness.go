package key

import (
	"time"

	"github.com/rowlock/rowlock/driver"
)

// Fairness: when a client that has a key leaves it to another that wants it. See the package
// comment.

const (
	// yieldTime is how long a client leaves a key to another that wants it: longer than the
	// longest time between two probes.
	yieldTime = LastProbe * 3 / 2

	// longHint is how long a hint may stand before all others leave the key to its client, not only
	// the one that releases it.
	longHint = 500 * time.Millisecond

	// maxUnclaimed is how often a key may be left alone for a hint and not be taken, before
	// the hint does not count any more.
	maxUnclaimed = 2
)

// Hinted reports whether the hint of another client counts: it wants the key.
func (s *State) Hinted(now time.Duration) bool {
	return s.hint.by != 0 && now < s.hint.until && s.hint.unclaimed < maxUnclaimed
}

const (
	// slotAsks: one release of a slot in so many asks for the hint, which costs a statement.
	slotAsks = 16

	// slotAsksEvery: and those of slots that are held for long ask once in this time.
	slotAsksEvery = time.Second
)

// AsksSlot reports whether a release of a slot is to ask for the hint: this client has had slots
// of the key for longer than Handoff and has not learned for as long whether another wants one.
// It is called once for each release.
func (s *State) AsksSlot(now time.Duration, env Env) bool {
	if s.firstSlot == 0 {
		return false
	}
	s.unasked++
	since := now - max(s.firstSlot, s.hint.at)
	if since < env.Handoff || s.unasked < slotAsks && since < slotAsksEvery {
		return false
	}
	s.unasked = 0
	return true
}

// contested reports whether another waits: a client whose hint says so, or that had the turn
// before this one and may wait for it again; or callers here that want the key in another mode.
func (s *State) contested(now time.Duration, env Env) bool {
	return s.Hinted(now) || s.turn && s.turnWaited || env.Others
}

// noteHint notes the hint that the database has, if it is another client's.
func (s *State) noteHint(h driver.Hint, now time.Duration, env Env) {
	if h.Client == env.Client {
		h = driver.Hint{}
	}
	w := foreignHint{by: h.Client, until: now + h.Left, at: max(now, 1)}
	if w.by == s.hint.by && w.until < s.hint.until+hintEvery/2 {
		w.unclaimed = s.hint.unclaimed // the same hint, not renewed
	}
	s.hint = w
}

// standing is the hint of another client that probes have found since.
type standing struct {
	by    uint32
	since time.Duration
}

// noteStanding notes which hint a probe found.
func (s *State) noteStanding(h driver.Hint, now time.Duration, env Env) {
	if h.Client == env.Client {
		h = driver.Hint{}
	}
	if h.Client != s.standing.by {
		s.standing = standing{h.Client, now}
	}
}

// standsLong reports whether another client's hint has stood for long: those that release the key
// leave it to that client, but each time another takes it that has done so before. They keep step,
// and the one whose hint stands meets no moment in which the key is free.
func (s *State) standsLong(now time.Duration) bool {
	return s.standing.by != 0 && now-s.standing.since >= longHint
}

// leavesToStanding begins to leave a key that a probe found free to another client whose hint has
// stood for long; false: it does not.
func (s *State) leavesToStanding(e Event, now time.Duration, env Env) bool {
	if !s.standsLong(now) || env.Fair || env.Queue || env.Turns || env.Late {
		return false
	}
	s.noteHint(e.Hint, now, env)
	if !s.Hinted(now) {
		return false
	}
	s.lastToken = e.Token
	s.startYield(now)
	return true
}

// knows reports whether the database was asked just now whether another client wants the key.
func (s *State) knows(now time.Duration, env Env) bool {
	return s.hint.at > 0 && now-s.hint.at <= 2*firstOwnProbe(env)
}

// beginTenure: this client got the key from another.
func (s *State) beginTenure(now time.Duration, env Env) {
	s.Since, s.tenure, s.unserved = max(now, 1), env.Handoff, s.Waiting
	if s.Waiting > 0 && (env.Turns || env.Queue) {
		// The longer callers here had to wait, the more of the others do.
		waited := now - max(s.waitingSince, s.tenureEnded)
		s.tenure = env.Handoff / (1 + waited/env.Handoff)
	}
}

func (s *State) endTenure(now time.Duration) {
	if s.Since > 0 {
		s.Since, s.tenureEnded = 0, now
	}
}

// withinTenure reports whether this client keeps the key though another wants it: until its
// tenure is over, and each caller that waited here when it began has had the key, if that
// takes no longer than Handoff.
func (s *State) withinTenure(now time.Duration, env Env) bool {
	age := now - s.Since
	return age < s.tenure || s.unserved > 0 && age < env.Handoff
}

// heldByOther: another client has the key, which ends the tenure of this one.
func (s *State) heldByOther(now time.Duration, env Env) {
	if (s.yielding || s.Since > 0) && !env.Fair {
		s.Backoff.slow() // those that have waited for longer first
	}
	s.endTenure(now)
	s.yielding, s.hint = false, foreignHint{}
}

// releasing decides between handing the grant off here and releasing it to the database.
func (s *State) releasing(now time.Duration, env Env) Action {
	if env.Fair {
		if s.resting() && env.First {
			return Action{Do: HandOff}
		}
		return Action{Do: Release}
	}
	if env.Together {
		if s.resting() {
			return Action{Do: HandOff} // for as long as the grant is young
		}
		return Action{Do: Release}
	}
	if s.resting() && (s.withinTenure(now, env) || s.knows(now, env) && !s.contested(now, env)) {
		return Action{Do: HandOff}
	}
	return Action{Do: Release}
}

// HandedOff: the first caller here got the grant and waits no more. The action says when to
// probe the key next: a probe that is planned is not put off, however short the holds are.
func (s *State) HandedOff(now time.Duration, env Env) Action {
	s.unserved--
	if s.Waiting--; s.Waiting == 0 {
		return s.stop(env)
	}
	s.ownProbe, s.ahead = 0, 0
	if env.Together || s.probing || s.planned == Probe && s.ownProbeAt > 0 && s.ownProbeAt <= now+env.Handoff {
		return Action{}
	}
	return s.planOwnProbe(now, env)
}

func (s *State) ended(e Event, now time.Duration, env Env) Action {
	switch {
	case s.has(env):
	case env.Fair:
		return s.endedInLine(now, env)
	case env.Together:
		switch {
		case s.Waiting == 0 && e.Known && s.Hinted(now) && !e.Lost:
			s.startYield(now) // for a caller that comes at once
		case !s.resting():
		case s.Hinted(now) && !e.Lost:
			s.startYield(now)
			return s.yield(now, env)
		default:
			return s.try(now)
		}
	case s.Waiting == 0: // a caller that comes at once continues the tenure
		if s.contested(now, env) && (env.Turns || now-s.Since >= 2*env.Handoff) {
			s.startYield(now)
		}
		s.turn = false
		return Action{Do: EndTurn}
	case s.Mode != Resting:
	case e.Lost:
		return s.tryOrQueue(now, env)
	case s.contested(now, env) && !s.withinTenure(now, env):
		s.startYield(now)
		return s.yield(now, env)
	default:
		return s.try(now)
	}
	return Action{}
}

// startYield leaves the key to another client that wants it, for yieldTime.
func (s *State) startYield(now time.Duration) {
	s.yielding, s.yieldUntil = true, now+yieldTime
	s.endTenure(now)
}

// yield waits for the end of the time for which the key is left alone, or in the server's
// queue.
func (s *State) yield(now time.Duration, env Env) Action {
	if env.Queue && !env.Together || env.Turns {
		return s.queue(env) // at its end, behind the others
	}
	if env.Push {
		return s.plan(Try, s.yieldUntil-now, NoJitter)
	}
	return s.plan(Probe, s.yieldUntil-now, NoJitter) // which says whether the other has taken it
}

// tryOrQueue tries now, unless others wait in the server's queue: the attempt would be
// refused.
func (s *State) tryOrQueue(now time.Duration, env Env) Action {
	if (env.Queue && !env.Together || env.Turns && !s.turn) && s.Hinted(now) && !env.Fair {
		return s.queue(env)
	}
	return s.try(now)
}
