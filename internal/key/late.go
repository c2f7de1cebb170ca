package key

import "time"

// Where the store gives turns (driver.Turner) readers and slots ask for none at first: they look now and
// then, and many are granted by one look. But exclusive callers that come again and again follow each other by their
// turns within a millisecond: a look seldom meets that moment, and a hint is of no use, because the
// client whose turn comes does not read it. So those that have seen the key go from hold to hold for longHint ask for a
// turn too. They give it to the next as soon as they have the key (Granted).

// late is what is known of the holds that callers with Env.Late wait behind.
type late struct {
	token int64         // of the hold that was seen last
	since time.Duration // when it was seen that another hold had followed the first
}

// noteHold notes which hold a probe found.
func (s *State) noteHold(token int64, now time.Duration, env Env) {
	if env.Late && s.late.token != 0 && s.late.token != token && s.late.since == 0 {
		s.late.since = now
	}
	s.late.token = token
}

// orTurn waits for a turn beside the action a, which plans a probe, if it is time to.
func (s *State) orTurn(a Action, now time.Duration, env Env) Action {
	if env.Late && !env.Fair && !s.turn && s.late.since != 0 && now-s.late.since >= longHint {
		s.late.since = now // if there is none to be had it asks again
		a.Do = Queue
	}
	return a
}
