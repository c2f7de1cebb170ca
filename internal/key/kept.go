package key

import "time"

const (
	// keptProbe is the longest time between two probes of a key that MinHold keeps from
	// everybody: an operator may force it free. firstKeptProbe is the shortest: the hold may be that
	// of an attempt whose caller gave up, and be undone in a moment. Between them it is keptFactor times as long as
	// the key has been seen kept.
	keptProbe      = time.Minute
	firstKeptProbe = time.Second
	keptFactor     = 3
)

// rest waits for the end of the time for which nobody can have the key.
func (s *State) rest(e Event, now time.Duration) Action {
	s.keptUntil, s.turn = now+e.Left, false
	if s.keptFrom == 0 || e.Token != s.keptToken {
		s.keptFrom, s.keptToken = max(now, 1), e.Token
	}
	rest, jitter := min(max(keptFactor*(now-s.keptFrom), firstKeptProbe), keptProbe), JitterThird
	if e.Left <= rest*4/3 { // which a jitter could exceed
		rest, jitter = e.Left, NoJitter
	}
	a := s.plan(Probe, rest, jitter)
	a.Do = Rest
	return a
}
