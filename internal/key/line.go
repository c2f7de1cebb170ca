package key

import "time"

// Callers that wait with a ticket (Env.Fair). The database says in each answer how many tickets
// stand before this client's, and refuses its attempts until there are none. So the first in the
// line behaves as any client that waits; those behind it wait in the server's queue, which keeps
// the order of the line, or look now and then whether it is their turn: an attempt costs them a
// plain read. Hints and tenures do not count.

// behind reports whether others stand before this client.
func (s *State) behind(env Env) bool { return env.Fair && s.ahead > 0 }

// mayQueue reports whether the client may wait in the server's queue after a refusal. In one
// that grants nobody may behind readers or slots, which are in no such queue, nor these behind
// others in the line.
func (s *State) mayQueue(e Event, env Env) bool {
	return env.Queue && !e.Phase && !(env.Together && s.behind(env)) || env.Turns && !s.turn
}

// moved notes who stands before this client, after a refusal. Where the line moves, looks are
// dense again.
func (s *State) moved(e Event, env Env) {
	if !env.Fair {
		return
	}
	if e.Ahead < s.ahead {
		s.Backoff.step = 0
	}
	s.ahead = e.Ahead
}

// passTurn gives the turn in the server's queue to those who stand before, and looks again
// later.
func (s *State) passTurn(now time.Duration, env Env) Action {
	s.turn = false
	a := s.planProbe(now, env)
	a.Do = Rest
	return a
}

// placed: the answer to the put or renewal of the ticket.
func (s *State) placed(e Event, now time.Duration, env Env) Action {
	before := s.ahead
	s.moved(e, env)
	switch {
	case s.Mode == Queued && env.Turns && s.ahead == 0 && before > 0:
		return Action{Do: Probe, After: lineProbe, Jitter: JitterThird} // the one that has the turn may be gone
	case !s.resting() || s.has(env):
	case s.behind(env) && s.turn:
		return s.passTurn(now, env)
	case s.ahead == 0 && before > 0:
		return s.plan(Probe, 0, NoJitter)
	}
	return Action{}
}

// wokenInLine: the key was released. It is the first one's turn, and then that of the next.
func (s *State) wokenInLine(now time.Duration) Action {
	s.yielding, s.hadLast = false, false
	if s.ahead > 1 {
		s.ahead--
		return Action{}
	}
	return s.try(now)
}

// endedInLine: a grant of this client has ended. Its next caller comes after those who stand
// before it.
func (s *State) endedInLine(now time.Duration, env Env) Action {
	switch {
	case s.Mode != Resting:
	case !s.behind(env):
		return s.try(now)
	case env.Turns, env.Queue && !env.Together:
		return s.queue(env)
	default:
		s.Backoff = Backoff{}
		return s.planProbe(now, env)
	}
	return Action{}
}
