package key

import (
	"time"

	"github.com/rowlock/rowlock/driver"
)

const (
	// maxOwnProbe is the longest time between two probes of a key that this client has: an
	// operator may have forced it free.
	maxOwnProbe = time.Second

	// wakeJitter delays the client that had the key last when the stream wakes all: two
	// clients that are a little faster than the rest would otherwise take turns for ever.
	wakeJitter = 2 * time.Millisecond

	// maxWakeDelay is the longest delay of a client that the stream wakes; it is shorter by
	// this part of the time since the client had the key.
	maxWakeDelay  = 3 * time.Millisecond
	wakeDelayPart = 333

	// nextProbe is the time between two probes of the client whose hint there is: it is the
	// next that should have the key.
	nextProbe = LastProbe / 3

	// queueProbe is the time between two probes of a key that this client waits for in the
	// server's queue: the client that has the turn may be frozen, or its hint may have ended.
	queueProbe = hintEvery

	// hintEvery is the age at which a client's own hint is renewed.
	hintEvery = driver.HintTime / 2
)

// Step moves the state by what has happened, and says what to do about it.
func (s *State) Step(e Event, now time.Duration, env Env) Action {
	switch e.Kind {
	case Join:
		if s.Waiting++; s.Waiting == 1 {
			s.waitingSince = now
		}
		return s.join(now, env)
	case Left:
		if s.Waiting--; s.Waiting == 0 {
			return s.stop(env)
		}
	case Began:
		s.Held++
		s.lastToken = e.Token
		if env.Queue && !env.Together && s.Mode == Queued && e.Known {
			s.turn, s.turnWaited = true, true // it stood behind another client, which may wait again
		}
		if s.Since == 0 && !env.Together {
			s.beginTenure(now, env)
		}
		if env.Together && s.firstSlot == 0 {
			s.firstSlot = max(now, 1)
		}
		if e.Known {
			s.noteHint(e.Hint, now, env)
		}
	case Granted:
		if s.yielding && env.Push {
			s.hint.unclaimed++ // nobody took the key: the stream would have told of its release
		}
		s.yielding, s.ownPush, s.hadLast, s.ownProbe, s.ahead = false, false, true, 0, 0
		s.Backoff, s.Apart, s.Gated = Backoff{}, false, false
		s.Mode = None
		if env.Together { // others may have it too, so the turn goes on
			s.turn, s.late = false, late{}
		}
		switch {
		case s.Waiting == 0:
		case env.Together:
			return s.try(now)
		default:
			return s.planOwnProbe(now, env)
		}
	case Refused:
		return s.refused(e, now, env)
	case Failed:
		s.Apart = false
		return s.plan(Try, s.Backoff.failed(e.Silent, e.Took), JitterThird)
	case Again:
		s.Backoff = Backoff{}
		return s.try(now)
	case NoPlace:
		if s.Mode != Queued {
			break // the queue is asked for again after the next refusal
		}
		s.Mode = None
		if s.yielding {
			return s.plan(Probe, max(s.yieldUntil-now, 0), NoJitter)
		}
		return s.planProbe(now, env)
	case Turn:
		if s.Waiting == 0 {
			return Action{Do: EndTurn} // nobody needs it any more
		}
		s.turn, s.turnWaited = true, e.Waited
		if s.Mode == Queued || env.Late && s.Mode == Resting {
			return s.try(now)
		}
		s.Backoff.step = 0 // the attempt that is on its way may have been refused before
	case Due:
		switch s.Mode {
		case Queued:
			return Action{Do: Probe}
		case Resting:
		default:
			return Action{}
		}
		if s.planned == Try || s.renews(now, env) || s.behind(env) && !s.has(env) {
			return s.try(now) // it looks who stands before
		}
		s.probing = s.has(env)
		return Action{Do: Probe}
	case Probed, ProbeFailed:
		if s.Mode == Queued && !env.Turns {
			break // an attempt is on its way
		}
		if e.Kind == Probed {
			return s.probed(e, now, env)
		}
		switch {
		case s.Mode == Queued:
			return s.probeQueued(env)
		case !s.resting():
		case e.Lasting:
			return s.try(now)
		default:
			return s.plan(Probe, s.Backoff.failed(false, 0), JitterThird)
		}
	case Woken:
		return s.woken(now, env)
	case Freed:
		if s.resting() && !s.has(env) {
			s.yielding = false
			return s.tryOrQueue(now, env)
		}
	case Releasing:
		return s.releasing(now, env)
	case ReleaseSent:
		s.ownPush = env.Push && !env.Together
	case Ended:
		s.Held--
		if e.Known {
			s.noteHint(e.Hint, now, env)
		}
		return s.ended(e, now, env)
	case Stream:
		s.ownPush = false
		if s.Mode == Resting && !s.has(env) {
			return s.plan(Probe, FirstProbe, JitterFull) // for what was released before the stream opened
		}
	case Placed:
		return s.placed(e, now, env)
	}
	return Action{}
}

// Planned is what is planned in Resting: Try or Probe.
func (s *State) Planned() Do { return s.planned }

// Knows reports whether the state is worth keeping though nobody waits.
func (s *State) Knows(now time.Duration) bool {
	return s.Held > 0 || s.Waiting > 0 || s.Hinted(now) || s.yielding && now < s.yieldUntil
}

// Open reports whether a caller that comes now would try at once: nobody waits here, this
// client does not have the key, and does not leave it to another.
func (s *State) Open(now time.Duration, env Env) bool {
	return s.Mode == None && !s.has(env) && !(s.yielding && now < s.yieldUntil)
}

func (s *State) join(now time.Duration, env Env) Action {
	switch {
	case s.Mode != None:
		return Action{}
	case s.has(env):
		return s.planOwnProbe(now, env)
	case s.yielding && now < s.yieldUntil && !env.Fair:
		return s.yield(now, env)
	}
	return s.try(now)
}

// has reports whether this client has the key, so that its callers can only get it from here.
func (s *State) has(env Env) bool { return s.Held > 0 && !env.Together }

func (s *State) try(now time.Duration) Action {
	s.Mode, s.asked = Trying, now
	return Action{Do: Try}
}

// plan makes the key rest until do is due.
func (s *State) plan(do Do, after time.Duration, jitter Jitter) Action {
	s.Mode, s.planned, s.probing, s.ownProbeAt = Resting, do, false, 0
	return Action{Do: do, After: after, Jitter: jitter}
}

// planProbe plans a probe of a key that another client has.
func (s *State) planProbe(now time.Duration, env Env) Action {
	if s.behind(env) {
		d, jitter := s.Backoff.behind(s.ahead, env.Push)
		return s.plan(Probe, d, jitter)
	}
	d, jitter := s.Backoff.next(env.Push)
	if s.ungated && d > driver.GateAfter { // soon it may leave one
		d, jitter = driver.GateAfter, JitterThird
	}
	if rest := s.asked + hintEvery - now; s.Gated && rest < d { // the gate is to be renewed
		d, jitter = max(rest, FirstProbe), NoJitter
	}
	return s.plan(Probe, d, jitter)
}

// queue waits in the server's queue.
func (s *State) queue(env Env) Action {
	s.Mode, s.planned, s.turn, s.seen = Queued, Probe, false, seen{}
	if env.Turns {
		a := s.probeQueued(env)
		a.Do = Queue
		return a
	}
	return Action{Do: Queue}
}

// planOwnProbe plans a probe of a key that this client has: whether another wants it.
func (s *State) planOwnProbe(now time.Duration, env Env) Action {
	first := firstOwnProbe(env)
	if env.Push && !s.knows(now, env) {
		first = first * 3 / 2 // most often a release comes before, and says the same
	}
	s.ownProbe = min(max(2*s.ownProbe, first), maxOwnProbe)
	if s.contested(now, env) || env.Fair { // which is all that a probe could find
		s.ownProbe = maxOwnProbe
	}
	a := s.plan(Probe, s.ownProbe, NoJitter)
	s.ownProbeAt = now + s.ownProbe
	return a
}

// firstOwnProbe is the time to the first probe of a key that this client has.
func firstOwnProbe(env Env) time.Duration { return max(env.Handoff, LastProbe/2) }

// renews reports whether an attempt is due that renews this client's hint or gate: not while
// the key is kept from everybody.
func (s *State) renews(now time.Duration, env Env) bool {
	return !s.has(env) && !s.yielding && (env.Hints || s.Gated) && now-s.asked >= hintEvery && now >= s.keptUntil
}

func (s *State) resting() bool { return s.Mode == Resting && s.Waiting > 0 }

func (s *State) stop(env Env) Action {
	s.Mode, s.sawFree, s.Apart, s.Gated, s.ahead = None, false, false, false, 0
	s.turn = s.turn && s.has(env) // until the key is free again
	s.Backoff, s.late, s.keptFrom = Backoff{}, late{}, 0
	return Action{Do: Stop}
}

// refused: another client has the key.
func (s *State) refused(e Event, now time.Duration, env Env) Action {
	tried := s.Mode == Trying
	if s.Apart = e.Apart; s.Apart {
		return s.try(now)
	}
	s.heldByOther(now, env)
	s.turnWaited = s.turnWaited || s.turn // the client that has the key may wait for it again
	if s.sawFree {
		s.Backoff.outrun()
	}
	s.moved(e, env)
	s.sawFree, s.Gated, s.ungated = false, e.Gated, e.Phase && !e.Gated && !env.Together
	s.Backoff.held(e.Left, e.Pinned)
	if s.behind(env) && s.turn {
		return s.passTurn(now, env)
	}
	if tried && !e.Pinned && !s.Gated && s.mayQueue(e, env) { // no other can have it before the gate ends
		return s.queue(env)
	}
	return s.planProbe(now, env)
}

func (s *State) probed(e Event, now time.Duration, env Env) Action {
	s.keptUntil = 0
	s.noteStanding(e.Hint, now, env)
	switch {
	case e.Kept && e.Left > 0 && !s.has(env) && s.Waiting > 0 && (s.Mode == Queued || s.Mode == Resting):
		s.heldByOther(now, env)
		s.Backoff.held(e.Left, e.Pinned)
		return s.rest(e, now)
	case s.Mode == Queued && s.Waiting > 0:
		return s.probedQueued(e, now, env)
	case !s.resting():
		return Action{}
	case e.Free:
		if s.yielding && e.Token == s.lastToken {
			s.hint.unclaimed++ // nobody took the key
		} else if s.leavesToStanding(e, now, env) {
			return s.yield(now, env)
		}
		s.sawFree, s.yielding = true, false
		return s.try(now)
	case s.has(env):
		s.noteHint(e.Hint, now, env)
		return s.planOwnProbe(now, env)
	}
	s.heldByOther(now, env)
	s.Backoff.held(e.Left, e.Pinned)
	if env.Together {
		s.noteHint(e.Hint, now, env)
	}
	s.ungated = e.Phase && !e.Gated && !env.Together
	if s.ungated && now-s.asked >= LastProbe {
		return s.try(now) // it leaves a gate
	}
	if e.Hint.Client == 0 && env.Hints && !e.Pinned && now-s.asked >= LastProbe {
		return s.try(now) // the client whose hint there was has the key now
	}
	s.noteHold(e.Token, now, env)
	if e.Hint.Client == env.Client && !env.Push && !e.Pinned {
		return s.orTurn(s.plan(Probe, nextProbe, JitterThird), now, env)
	}
	return s.orTurn(s.planProbe(now, env), now, env)
}

// probedQueued: a free key is about to be taken by the client that has the turn. An attempt
// of this client would get it out of turn, and the other would have to find it by probes when
// it is free again. So it is tried only where a second probe finds it still free after the
// same hold: nobody takes it.
func (s *State) probedQueued(e Event, now time.Duration, env Env) Action {
	last := s.seen
	s.seen = seen{}
	switch {
	case e.Free && last.free && last.token == e.Token, e.Free && env.First:
		return s.try(now)
	case e.Free:
		s.seen = seen{free: true, token: e.Token}
		return Action{Do: Probe, After: LastProbe, Jitter: JitterThird}
	case e.Hint.Client == 0 || e.Hint.Client == env.Client && e.Hint.Left < hintEvery:
		return s.try(now) // there is no hint, or this client's own is to be renewed
	}
	return s.probeQueued(env)
}

// probeQueued plans a probe beside the server's queue.
func (s *State) probeQueued(env Env) Action {
	if env.First { // nobody else can have the key
		return Action{Do: Probe, After: lineProbe, Jitter: JitterThird}
	}
	return Action{Do: Probe, After: queueProbe, Jitter: JitterThird}
}

func (s *State) woken(now time.Duration, env Env) Action {
	switch {
	case s.ownPush:
		s.ownPush = false
	case s.has(env) || !s.resting():
	case env.Fair:
		return s.wokenInLine(now)
	case env.Together && s.yielding && now < s.yieldUntil:
	case s.hadLast && !env.Together:
		s.hadLast, s.yielding = false, false
		return s.plan(Try, wakeJitter, JitterFull)
	default:
		s.yielding = false
		if d := s.wakeDelay(now); d > 0 {
			return s.plan(Try, d, NoJitter)
		}
		return s.tryOrQueue(now, env)
	}
	return Action{}
}

// wakeDelay lets the clients that have waited for longer go first, when the stream wakes all.
func (s *State) wakeDelay(now time.Duration) time.Duration {
	if s.tenureEnded == 0 {
		return 0
	}
	return max(0, maxWakeDelay-(now-s.tenureEnded)/wakeDelayPart)
}
