package key

import "time"

// Line is what a client knows of a key of a Store with lines (driver.Limits.Line) that callers wait for here, or that
// it has. The zero value is a key of which it knows nothing. It has no clock and sends nothing.
//
//	              ┌──────────── Granted, nobody waits ────────────┐
//	              ▼                                               │
//	Join ──▶ [None] ──Try──▶ [Trying] ──Refused: it stands──▶ [Resting] ◀─┐
//	                            ▲  └─▶ Granted                   │ Due    │ another's
//	                            │                                ▼        │
//	                            └── free: the turn is passed ── a look ───┘
//	                                                             └─▶ mine: Granted
//
// Try is an acquire that stands in the line, or goes on to stand there: it refreshes the entry, and passes a key
// whose hold is over. Every row is a case of TestLine.
//
//	mode      event                                   mode      action
//	None      Join, this client has the key           Resting   Probe after Handoff
//	None      Join                                    Trying    Try
//	any       Join                                    -         Nothing
//	Trying    Granted, others wait here               Resting   Probe after Handoff; together: Trying, Try
//	any       Granted                                 None      Nothing
//	Trying    Refused, the store is not sure          Trying    Try, in no batch with keys that are not pinned
//	Trying    Refused, it has been passed the key     Resting   Probe now; too where a hold of this client ended meanwhile
//	Trying    Refused, it does not stand              Resting   Try after fullPause: the line is full
//	Trying    Refused                                 Resting   Probe after the pace of its place
//	Trying    Failed, it stands                       Resting   Probe after the retry backoff
//	Trying    Failed                                  Resting   Try after the retry backoff
//	Resting   Due, planned as a try                   Trying    Try
//	Resting   Due, the entry is to be refreshed       Trying    Try
//	Resting   Due; Turn                               Resting   Probe now
//	Resting   Probed: this client has the key         Resting   Probe after Handoff, then twice as long, to a second;
//	                                                            it is free, because the hold was ended by force: as below
//	Resting   Probed: kept by MinHold                 Resting   Probe at its end, or after firstKeptProbe, ever later, to keptProbe
//	Resting   Probed: pinned                          Resting   Probe after pinnedPace
//	Resting   Probed: free, first or free for long    Trying    Try
//	Resting   Probed: it does not stand               Trying    Try
//	Resting   Probed                                  Resting   Probe after the pace of its place
//	Resting   ProbeFailed                             Resting   Probe after the retry backoff; Try, if it will fail again
//	Resting   Freed, it does not stand                Trying    Try
//	Resting   Freed                                   Resting   Probe now
//	Resting   Releasing, together                     Resting   HandOff, if the grant is young
//	Resting   Releasing, nobody stands or within the tenure Resting HandOff; Probe after Handoff
//	any       Releasing                               -         Release, which passes the key
//	Resting   Ended, the next entry stands            Resting   Probe after the pace of its place
//	Resting   Ended, together, it stands              Resting   Probe now
//	Resting   Ended                                   Trying    Try
//	any       Turn, nobody waits, nor has the key     -         EndTurn
//	any       Left, nobody waits any more             None      Stop
//
// "Together" are readers and slots: that this client has one keeps it from no other. The tenure of a client begins when
// the database grants it a key. While others stand it is one pass of the callers that waited here
// then, and at most Handoff; or a part of Handoff, the smaller the more stand, if that is longer. Without others it
// has no end.
type Line struct {
	Waits

	Place, Standing int           // as told last
	Since           time.Duration // when the tenure began; 0: there is none
	Trip            time.Duration // how long the last look took

	stands  time.Duration // since when this client waits for the database
	freeAt  time.Duration // since when the key was seen free; 0: it was not
	began   time.Duration // when the hold that was seen last began; 0: none was seen
	turn    time.Duration // how long a turn takes, as far as is known
	changed bool          // Trying: a hold of this client ended meanwhile
	unsure  bool          // what became of an attempt only a look tells: the entry is not refreshed before
}

// Step moves the state by what has happened, and says what to do about it.
func (s *Line) Step(e Event, now time.Duration, env Env) Action {
	switch e.Kind {
	case Join:
		if s.Waiting++; s.Mode != None {
			return Action{}
		}
		if s.has(env) {
			return s.planOwn(now, env)
		}
		return s.try(now)
	case Left:
		if s.Waiting--; s.Waiting == 0 {
			return s.stop()
		}
	case Began:
		if s.Place > 0 && e.Age > 0 { // it was passed the key
			e.Place = 0
			s.note(e, now)
		}
		if s.Held++; s.Since == 0 && !env.Together {
			s.Since, s.unserved = max(now, 1), s.Waiting
		}
		s.Standing = e.Standing
	case Granted:
		s.granted(e)
		s.Place, s.stands, s.freeAt, s.changed = 0, 0, 0, false
		switch {
		case s.Waiting == 0:
		case env.Together:
			return s.try(now)
		default:
			return s.planOwn(now, env)
		}
	case Refused:
		if s.turn == 0 {
			s.turn = env.Usual
		}
		if s.Apart = e.Apart; s.Apart {
			return s.try(now)
		}
		s.Since, s.backoff, s.Pinned = 0, Backoff{}, e.Pinned
		s.note(e, now)
		changed := s.changed
		s.changed = false
		switch {
		case e.Stands, changed && e.Place > 0:
			s.unsure = true
			return s.plan(Probe, 0, NoJitter)
		case e.Place == 0:
			return s.plan(Try, fullPause, JitterThird)
		}
		return s.next(e, now, env)
	case Failed:
		s.Apart = false
		after := s.backoff.failed(e.Silent, e.Took)
		if s.Place > 0 {
			s.unsure = true
			return s.plan(Probe, after, JitterThird)
		}
		return s.plan(Try, after, JitterThird)
	case Again:
		s.backoff = Backoff{}
		return s.try(now)
	case Due:
		return s.due(s.refreshes(now) && !s.has(env), func() Action { return s.try(now) })
	case Turn:
		if s.Waiting == 0 && s.Held == 0 {
			return Action{Do: EndTurn} // nobody needs it any more
		}
		if s.Mode == Resting && s.planned == Probe && !s.has(env) {
			return s.plan(Probe, 0, NoJitter)
		}
	case Probed:
		return s.probed(e, now, env)
	case ProbeFailed:
		return s.probeFailed(e, func() Action { return s.try(now) })
	case Freed:
		s.changed = s.Mode == Trying
		switch {
		case !s.resting() || s.has(env):
		case s.Place == 0:
			return s.try(now)
		default:
			return s.plan(Probe, 0, NoJitter)
		}
	case Releasing:
		if s.resting() && !env.Fair && (env.Together || (s.Standing == 0 && !env.Others || s.withinTenure(now, env))) {
			return Action{Do: HandOff}
		}
		return Action{Do: Release}
	case Ended:
		s.Held--
		if s.Held == 0 {
			if e.Stands && s.Since > 0 {
				s.turn = now - s.Since
				s.began = now // the next hold
			}
			s.Since = 0
		}
		s.changed = s.Mode == Trying
		switch {
		case !s.resting() || s.has(env):
		case e.Stands:
			s.asked, s.stands, e.Place = now, max(now, 1), max(e.Place, 1)
			s.note(e, now)
			return s.next(e, now, env)
		case s.Place > 0: // most likely it was passed on to this client
			return s.plan(Probe, 0, NoJitter)
		default:
			return s.try(now)
		}
	}
	return Action{}
}

// HandedOff: the first caller here got the grant and waits no more. A look that is planned is not put off.
func (s *Line) HandedOff(now time.Duration, env Env) Action {
	if s.handedOff(env); s.Waiting == 0 {
		return s.stop()
	}
	return s.planAfter(now, env)
}

// Open reports whether a caller that comes now would try at once.
func (s *Line) Open(_ time.Duration, env Env) bool { return s.Mode == None && !s.has(env) }

// Confirm notes that the key was passed to this client, and that a renewal must say so before its caller is told.
func (s *Line) Confirm() { s.Mode, s.Place = Trying, 0 }

func (s *Line) try(now time.Duration) Action {
	if s.stands == 0 {
		s.stands = max(now, 1)
	}
	s.Mode, s.asked, s.freeAt, s.probing, s.unsure = Trying, now, 0, false, false
	return Action{Do: Try}
}

func (s *Line) stop() Action {
	*s = Line{Waits: Waits{Held: s.Held, own: s.own, ownAt: s.ownAt}, Since: s.Since, Standing: s.Standing, turn: s.turn, Trip: s.Trip}
	return Action{Do: Stop}
}

// withinTenure reports whether this client keeps the key though others stand.
func (s *Line) withinTenure(now time.Duration, env Env) bool {
	age := now - s.Since
	return age < env.Handoff && (s.unserved > 0 || age < env.Handoff/time.Duration(1+s.Standing))
}

// note notes where this client stands, and which hold was seen. How many places it has come nearer since the hold that was seen before
// tells how long a turn takes. The answer to an acquire does not say since when the hold lasts: where it is another it is taken to be in
// the middle of its turn.
func (s *Line) note(e Event, now time.Duration) {
	age := e.Age
	if age == 0 && 0 < e.Place && e.Place < s.Place {
		age = max(s.turn/2, 1)
	}
	if began := now - age; age > 0 && began > s.began+max(firstPace, s.Trip) {
		if turns := s.Place - e.Place; s.began > 0 && turns > 0 {
			s.took((began - s.began) / time.Duration(turns))
		}
		s.began = began
	}
	s.Place, s.Standing = e.Place, e.Standing
}

// took notes how long a turn of another took. That time has in it how late the next one looked, so a short one counts more than a long
// one: else all would look ever later. A turn of this client's own counts as it is.
func (s *Line) took(turn time.Duration) {
	if s.turn > 0 && turn > s.turn {
		turn = min(turn, s.turn+s.turn/8)
	}
	s.turn = turn
}

func (s *Line) probed(e Event, now time.Duration, env Env) Action {
	s.probing, s.unsure = false, false
	if e.Took > 0 {
		s.Trip = e.Took
	}
	if !s.resting() {
		return Action{}
	}
	if s.has(env) && !e.Free {
		s.Standing = e.Standing
		return s.planNextOwn(now, env)
	}
	stood := s.Place > 0
	s.note(e, now)
	s.backoff, s.Pinned = Backoff{}, e.Pinned
	switch {
	case !e.Free:
		s.freeAt = 0
	case e.Pinned:
		return s.plan(Probe, pinnedPace, JitterThird)
	case s.freeAt == 0:
		s.freeAt = now
	}
	switch {
	case e.Free && (env.Together || e.Place <= 1 || now-s.freeAt >= time.Duration(e.Place-1)*time.Second):
		return s.try(now)
	case e.Kept && e.Left > 0:
	case e.Place == 0 && stood:
		s.stands = 0 // it stands at the end
		return s.try(now)
	case e.Place == 0:
		return s.plan(Try, fullPause, JitterThird)
	}
	return s.next(e, now, env)
}

// next plans the next look.
func (s *Line) next(e Event, now time.Duration, env Env) Action {
	if e.Kept && e.Left > 0 {
		return s.rest(e, now)
	}
	s.keptFrom, s.keptUntil = 0, 0
	d, jitter := s.pace(now, env)
	if env.Bell {
		d = max(d, bellPace)
	}
	if e.Left > 0 && e.Left < d {
		d, jitter = e.Left, NoJitter
	}
	return s.plan(Probe, d, jitter)
}
