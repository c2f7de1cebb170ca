package key

import (
	"time"

	"github.com/rowlock/rowlock/driver"
)

// Queue is what a client knows of a key of a Store whose server keeps those who wait (driver.Queuer), and grants. The zero
// value is a key of which it knows nothing. It has no clock and sends nothing.
//
// Callers wait in that queue for an exclusive hold. For readers and slots nobody queues, since no session has the row: the
// key is probed. An exclusive attempt leaves a gate there, which keeps new ones out. Beside its own queue the server tells
// of others by hints (driver.Hint). See the package comment.
type Queue struct {
	Waits
	Gated bool // the last attempt left a gate, or renewed it (driver.Request.Gate)

	step  int           // of the times between probes
	left  time.Duration // until the key is free by itself; 0: not known
	apart time.Duration // between the last two attempts

	wanted  time.Duration // until when another client's hint stands, as far as is known
	told    time.Duration // when that was told last
	behind  bool          // this client was granted the key behind another in the server's queue, which may wait there again
	aloneTo time.Duration // until when this client leaves the key to another

	since       time.Duration // when the tenure began: this client got the key from another; 0: there is none
	tenure      time.Duration // how long this client keeps a key that another wants
	tenureEnded time.Duration
	waitsSince  time.Duration // when the first of the callers that wait here came
	firstSlot   time.Duration // when this client got its first slot or reader of the key; 0: none yet
	unasked     int           // releases of slots since one asked for the hint
}

const (
	// The time between two probes of a key, from the shortest to the longest.
	FirstProbe = 2 * time.Millisecond
	LastProbe  = 70 * time.Millisecond

	// aloneTime is how long a client leaves a key to another that wants it: longer than the
	// longest time between two probes.
	aloneTime = LastProbe * 3 / 2

	// hintEvery is the age at which a client's own hint, or gate, is renewed.
	hintEvery = driver.HintTime / 2

	// One release of a slot in slotAsks asks for the hint, which costs a statement, and those of slots that are held for long
	// once in slotAsksEvery.
	slotAsks      = 16
	slotAsksEvery = time.Second
)

// Step moves the state by what has happened, and says what to do about it.
func (s *Queue) Step(e Event, now time.Duration, env Env) Action {
	switch e.Kind {
	case Join:
		if s.Waiting++; s.Waiting == 1 {
			s.waitsSince = now
		}
		switch {
		case s.Mode != None:
			return Action{}
		case s.has(env):
			return s.planOwn(now, env)
		case now < s.aloneTo:
			return s.leaveAlone(now, env)
		}
		return s.try(now)
	case Left:
		if s.Waiting--; s.Waiting == 0 {
			return s.stop(env)
		}
	case Began:
		s.began(e, now, env)
	case Granted:
		s.granted(e)
		s.aloneTo, s.step, s.left, s.Gated = 0, 0, 0, false
		switch {
		case s.Waiting == 0:
		case env.Together:
			return s.try(now)
		default:
			return s.planOwn(now, env)
		}
	case Refused:
		return s.refused(e, now, env)
	case Failed:
		s.Apart = false
		return s.plan(Try, s.backoff.failed(e.Silent, e.Took), JitterThird)
	case Again:
		s.backoff = Backoff{}
		return s.try(now)
	case NoPlace:
		if s.Mode != Queued {
			break // the queue is asked for again after the next refusal
		}
		if now < s.aloneTo {
			return s.plan(Probe, s.aloneTo-now, NoJitter)
		}
		return s.planProbe(now)
	case Due:
		return s.due(s.renews(now, env), func() Action { return s.try(now) })
	case Probed:
		return s.probed(e, now, env)
	case ProbeFailed:
		return s.probeFailed(e, func() Action { return s.try(now) })
	case Freed:
		if s.resting() && !s.has(env) {
			return s.try(now)
		}
	case Releasing:
		if s.resting() && (env.Together || !s.contested(now, env) || s.withinTenure(now, env)) {
			return Action{Do: HandOff}
		}
		return Action{Do: Release}
	case Ended:
		s.Held--
		s.noteHint(e, now, env)
		return s.ended(e, now, env)
	}
	return Action{}
}

// HandedOff: the first caller here got the grant and waits no more.
func (s *Queue) HandedOff(now time.Duration, env Env) Action {
	if s.handedOff(env); s.Waiting == 0 {
		return s.stop(env)
	}
	return s.planAfter(now, env)
}

// Open reports whether a caller that comes now would try at once.
func (s *Queue) Open(now time.Duration, env Env) bool {
	return s.Mode == None && !s.has(env) && now >= s.aloneTo
}

// Knows reports whether the state is worth keeping though nobody waits and this client has no hold.
func (s *Queue) Knows(now time.Duration) bool { return now < s.wanted || now < s.aloneTo }

// Asks reports whether a release of the key is to ask for the hint. It is called once for each release.
func (s *Queue) Asks(now time.Duration, env Env) bool {
	if !env.Together {
		return s.Waiting > 0 || now < s.wanted
	}
	if s.firstSlot == 0 {
		return false
	}
	s.unasked++
	since := now - max(s.firstSlot, s.told)
	if since < env.Handoff || s.unasked < slotAsks && since < slotAsksEvery {
		return false
	}
	s.unasked = 0
	return true
}

// GateTime is how long the gate of an attempt stands: so long that the next attempt finds it, also on a
// machine that takes its time.
func (s *Queue) GateTime(ttl time.Duration) time.Duration {
	if !s.Gated || s.apart < driver.GateTime*2/3 {
		return driver.GateTime
	}
	return min(3*s.apart, max(ttl, driver.GateTime))
}

func (s *Queue) try(now time.Duration) Action {
	s.apart = now - s.asked
	s.Mode, s.asked, s.probing = Trying, now, false
	return Action{Do: Try}
}

func (s *Queue) enqueue() Action {
	s.Mode, s.planned, s.behind = Queued, Probe, false
	return Action{Do: Enqueue}
}

func (s *Queue) stop(env Env) Action {
	s.Mode, s.Apart, s.Gated, s.backoff, s.step, s.keptFrom = None, false, false, Backoff{}, 0, 0
	s.behind = s.behind && s.has(env) // until the key is free again
	return Action{Do: Stop}
}

// began notes a grant. The longer the callers here had to wait for it, the more others wait, and the shorter is the tenure.
func (s *Queue) began(e Event, now time.Duration, env Env) {
	s.Held++
	switch {
	case env.Together && s.firstSlot == 0:
		s.firstSlot = max(now, 1)
	case env.Together:
	default:
		s.behind = s.behind || s.Mode == Queued && e.Known
		if s.since == 0 {
			s.since, s.tenure, s.unserved = max(now, 1), env.Handoff, s.Waiting
			if s.Waiting > 0 {
				waited := now - max(s.waitsSince, s.tenureEnded)
				s.tenure = env.Handoff / (1 + waited/env.Handoff)
			}
		}
	}
	s.noteHint(e, now, env)
}

// refused: another client has the key.
func (s *Queue) refused(e Event, now time.Duration, env Env) Action {
	tried := s.Mode == Trying
	if s.Apart = e.Apart; s.Apart {
		return s.try(now)
	}
	s.heldByOther(e, now)
	s.Gated = e.Gated
	if tried && !e.Pinned && !e.Phase && !e.Gated { // no other can have it before the gate ends
		return s.enqueue()
	}
	return s.planProbe(now)
}

func (s *Queue) probed(e Event, now time.Duration, env Env) Action {
	s.probing, s.keptUntil = false, 0
	switch {
	case !s.resting(): // in the queue an attempt is on its way
		return Action{}
	case e.Free:
		s.aloneTo = 0
		return s.try(now)
	case s.has(env):
		s.noteHint(e, now, env)
		return s.planNextOwn(now, env)
	case e.Kept && e.Left > 0:
		s.heldByOther(e, now)
		return s.rest(e, now)
	}
	s.keptFrom = 0
	s.heldByOther(e, now)
	if env.Together {
		s.noteHint(e, now, env)
	}
	missing := e.Phase && !e.Gated && !env.Together || e.Hint.Client == 0 && env.Hints && !e.Pinned
	if missing && now-s.asked >= LastProbe {
		return s.try(now) // it leaves a gate, or a hint
	}
	return s.planProbe(now)
}

// heldByOther: another client has the key, which ends the tenure of this one.
func (s *Queue) heldByOther(e Event, now time.Duration) {
	s.endTenure(now)
	s.aloneTo, s.wanted, s.behind = 0, 0, false
	s.left, s.Pinned, s.backoff = e.Left, e.Pinned, Backoff{}
}

func (s *Queue) endTenure(now time.Duration) {
	if s.since > 0 {
		s.since, s.tenureEnded = 0, now
	}
}

// planProbe plans a probe of a key that another client has.
func (s *Queue) planProbe(now time.Duration) Action {
	d, jitter := min(FirstProbe<<s.step, LastProbe), JitterThird
	if d < LastProbe {
		s.step++
	}
	if s.Pinned {
		d = LastProbe
	}
	if s.left > 0 && s.left < d {
		d, jitter = s.left, NoJitter
	}
	if rest := s.asked + hintEvery - now; s.Gated && rest < d { // the gate is to be renewed
		d, jitter = max(rest, FirstProbe), NoJitter
	}
	return s.plan(Probe, d, jitter)
}

// renews reports whether an attempt is due that renews this client's hint or gate.
func (s *Queue) renews(now time.Duration, env Env) bool {
	return !s.has(env) && (env.Hints || s.Gated) && now-s.asked >= hintEvery && now >= max(s.keptUntil, s.aloneTo)
}

// noteHint notes the hint that the database has, if it is another client's.
func (s *Queue) noteHint(e Event, now time.Duration, env Env) {
	if e.Kind != Probed && !e.Known {
		return
	}
	if s.told, s.wanted = max(now, 1), 0; e.Hint.Client != 0 && e.Hint.Client != env.Client {
		s.wanted = now + e.Hint.Left
	}
}

// contested reports whether others want the key: another client whose hint stands, or that stood before this one in the server's queue
// and may stand there again; or callers here in another mode.
func (s *Queue) contested(now time.Duration, env Env) bool {
	return now < s.wanted || s.behind || env.Others
}

// withinTenure reports whether this client keeps the key though another wants it: until its
// tenure is over, and each caller that waited here when it began has had the key, if that
// takes no longer than Handoff.
func (s *Queue) withinTenure(now time.Duration, env Env) bool {
	age := now - s.since
	return age < s.tenure || s.unserved > 0 && age < env.Handoff
}

func (s *Queue) ended(e Event, now time.Duration, env Env) Action {
	if s.has(env) {
		return Action{}
	}
	leaves := !e.Lost && s.contested(now, env) && (s.Waiting == 0 || s.Mode == Resting)
	switch {
	case env.Together:
		leaves = leaves && (s.Waiting > 0 || e.Known)
	case s.Waiting == 0: // a caller that comes at once continues the tenure
		leaves, s.behind = leaves && now-s.since >= 2*env.Handoff, false
	default:
		leaves = leaves && !s.withinTenure(now, env)
	}
	if leaves {
		s.aloneTo = now + aloneTime
		s.endTenure(now)
	}
	switch {
	case !s.resting():
		return Action{}
	case leaves:
		return s.leaveAlone(now, env)
	}
	return s.try(now)
}

// leaveAlone leaves the key to another: at the end of the server's queue, behind it, or for as long as a probe of it takes.
func (s *Queue) leaveAlone(now time.Duration, env Env) Action {
	if !env.Together {
		return s.enqueue()
	}
	return s.plan(Probe, s.aloneTo-now, NoJitter)
}
