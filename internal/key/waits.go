package key

import "time"

// Waits is what both machines know of a key that callers wait for here, or that this client has.
type Waits struct {
	Mode    Mode
	Waiting int  // callers that wait here
	Held    int  // grants of this client, with those whose release was not answered yet
	Apart   bool // the attempt goes in no batch with keys that are not pinned
	Pinned  bool // the last answer was Pinned

	planned  Do   // Resting: Try or Probe
	probing  bool // a probe is on its way
	backoff  Backoff
	asked    time.Duration // the last attempt: it made or refreshed what the database knows of those who wait here
	unserved int           // callers that waited here when the tenure began, and have not had the key since
	own      time.Duration // between the last two probes of a key that this client has
	ownAt    time.Duration // when the next of them is due; 0: it is not planned

	keptFrom, keptUntil time.Duration // when MinHold was first seen to keep the key, and until when it does; 0: it does not
}

const (
	// maxOwnProbe is the longest time between two probes of a key that this client has: an
	// operator may have forced it free. leastOwnProbe is the shortest, if Handoff is not longer.
	maxOwnProbe   = time.Second
	leastOwnProbe = 25 * time.Millisecond

	// keptProbe is the longest time between two probes of a key that MinHold keeps from
	// everybody: an operator may force it free. firstKeptProbe is the shortest: the hold may be that
	// of an attempt whose caller gave up, and be undone in a moment. Between them it is keptFactor times as long as
	// the key has been seen kept.
	keptProbe      = time.Minute
	firstKeptProbe = time.Second
	keptFactor     = 3
)

// Planned is what is planned in Resting: Try or Probe.
func (s *Waits) Planned() Do { return s.planned }

// granted: this client has the key now, and its callers wait for nothing of the database.
func (s *Waits) granted(e Event) {
	s.Waiting -= e.Served
	s.Mode, s.own, s.ownAt = None, 0, 0
	s.Apart, s.Pinned, s.backoff = false, false, Backoff{}
}

// due is what comes when it is due: a probe, or an attempt, which try makes. renews: an attempt is due in the place of a probe.
func (s *Waits) due(renews bool, try func() Action) Action {
	switch {
	case s.Mode != Resting:
		return Action{}
	case s.planned == Try || renews:
		return try()
	}
	s.probing = true
	return Action{Do: Probe}
}

// probeFailed plans another probe. Where that would fail again, an attempt, which try makes, tells why.
func (s *Waits) probeFailed(e Event, try func() Action) Action {
	switch s.probing = false; {
	case !s.resting():
		return Action{}
	case e.Lasting:
		return try()
	}
	return s.plan(Probe, s.backoff.failed(e.Silent, e.Took), JitterThird)
}

// has reports whether this client has the key, so that its callers can only get it from here.
func (s *Waits) has(env Env) bool { return s.Held > 0 && !env.Together }

func (s *Waits) resting() bool { return s.Mode == Resting && s.Waiting > 0 }

// plan makes the key rest until do is due.
func (s *Waits) plan(do Do, after time.Duration, jitter Jitter) Action {
	s.Mode, s.planned, s.probing = Resting, do, false
	return Action{Do: do, After: after, Jitter: jitter}
}

// planOwn plans a probe of a key that this client has: whether others want it. One that is planned is not put off, however short the
// holds are, also where at times nobody waits here.
func (s *Waits) planOwn(now time.Duration, env Env) Action {
	if s.ownAt == 0 {
		s.own = min(max(2*s.own, env.Handoff, leastOwnProbe), maxOwnProbe)
		s.ownAt = now + s.own
	}
	return s.plan(Probe, max(s.ownAt-now, 1), NoJitter)
}

// planNextOwn is planOwn after a probe.
func (s *Waits) planNextOwn(now time.Duration, env Env) Action {
	s.ownAt = 0
	return s.planOwn(now, env)
}

// handedOff notes that another caller here has the key now. Whether others want it is to be known soon.
func (s *Waits) handedOff(env Env) {
	s.unserved--
	if s.Waiting--; s.own > env.Handoff && !s.probing {
		s.own, s.ownAt = 0, 0
	}
}

// planAfter is what is planned after a handoff.
func (s *Waits) planAfter(now time.Duration, env Env) Action {
	if env.Together || s.probing || s.ownAt > 0 {
		return Action{}
	}
	return s.planOwn(now, env)
}

// rest waits for the end of the time for which nobody can have the key. What the database knows of those who wait here is not
// refreshed: where that time is longer, the order begins at its end.
func (s *Waits) rest(e Event, now time.Duration) Action {
	if s.keptUntil = now + e.Left; s.keptFrom == 0 {
		s.keptFrom = max(now, 1)
	}
	after, jitter := min(max(keptFactor*(now-s.keptFrom), firstKeptProbe), keptProbe), JitterThird
	if e.Left <= after*4/3 { // which a jitter could exceed
		after, jitter = e.Left, NoJitter
	}
	return s.plan(Probe, after, jitter)
}
