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

	// maxUnclaimed is how often a key may be left alone for a hint and not be taken, before
	// the hint does not count any more.
	maxUnclaimed = 2
)

// Hinted reports whether the hint of another client counts: it wants the key.
func (s *State) Hinted(now time.Duration) bool {
	return s.hint.by != 0 && now < s.hint.until && s.hint.unclaimed < maxUnclaimed
}

// contested reports whether another client waits: its hint says so, or it had the turn
// before this one and may wait for it again.
func (s *State) contested(now time.Duration) bool { return s.Hinted(now) || s.turn && s.turnWaited }

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
func (s *State) heldByOther(now time.Duration) {
	if s.yielding || s.Since > 0 {
		s.Backoff.slow() // those that have waited for longer first
	}
	s.endTenure(now)
	s.yielding, s.hint = false, foreignHint{}
}

// releasing decides between handing the grant off here and releasing it to the database.
func (s *State) releasing(now time.Duration, env Env) Action {
	if s.resting() && (s.withinTenure(now, env) || s.knows(now, env) && !s.contested(now)) {
		return Action{Do: HandOff}
	}
	return Action{Do: Release}
}

// HandedOff: the first caller here got the grant and waits no more. The action says when to
// probe the key next: a probe that is planned is not put off, however short the holds are.
func (s *State) HandedOff(now time.Duration, env Env) Action {
	s.unserved--
	if s.Waiting--; s.Waiting == 0 {
		return s.stop()
	}
	s.ownProbe = 0
	if s.probing || s.planned == Probe && s.ownProbeAt > 0 && s.ownProbeAt <= now+env.Handoff {
		return Action{}
	}
	return s.planOwnProbe(now, env)
}

func (s *State) ended(e Event, now time.Duration, env Env) Action {
	switch {
	case s.Held > 0:
	case s.Waiting == 0: // a caller that comes at once continues the tenure
		if s.contested(now) && (env.Turns || now-s.Since >= 2*env.Handoff) {
			s.startYield(now)
		}
		s.turn = false
		return Action{Do: EndTurn}
	case s.Mode != Resting:
	case e.Lost:
		return s.tryOrQueue(now, env)
	case s.contested(now) && !s.withinTenure(now, env):
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
	if env.Queue || env.Turns {
		return s.queue(env) // at its end, behind the others
	}
	if env.Push {
		return s.plan(Try, s.yieldUntil-now, NoJitter)
	}
	return s.plan(Probe, s.yieldUntil-now, NoJitter) // which tells whether the other has taken it
}

// tryOrQueue tries now, unless others wait in the server's queue: the attempt would be
// refused.
func (s *State) tryOrQueue(now time.Duration, env Env) Action {
	if (env.Queue || env.Turns && !s.turn) && s.Hinted(now) {
		return s.queue(env)
	}
	return s.try(now)
}
