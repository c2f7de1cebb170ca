package grant

import "time"

// Watcher is a User that is told of answers, where Config.Watched is set. As a User it does
// not block and does not call the grant.
type Watcher interface {
	User

	// RenewalAnswered is told of each renewal that was answered, or failed, while it uses the
	// grant.
	RenewalAnswered(r Renewal)

	// ReleaseAnswered is told how the release was answered that this user asked for: Released,
	// or the loss that it was. late: without an answer, and it is repeated.
	ReleaseAnswered(reason Reason, cause error, late bool)
}

// Renewal is how one was answered.
type Renewal struct {
	Took  time.Duration
	Left  time.Duration // of the trust when the answer came, before it
	Trust time.Duration // from the last acknowledged statement to the deadline
	Lost  Reason        // 0: the grant goes on
	Err   error         // nil: it was acknowledged, or Lost has no cause
}

// seen is a renewal that users of a grant are to be told of. A nil one tells nobody.
type seen struct {
	users []User
	r     Renewal
}

// seenLocked notes a renewal whose answer is about to take effect.
func (g *Grant) seenLocked(sent, got time.Duration) *seen {
	if !g.rn.watched || g.user == nil {
		return nil
	}
	return &seen{append([]User{g.user}, g.more...), Renewal{Took: got - sent, Left: g.deadline - got, Trust: g.deadline - g.renewedAt}}
}

func (s *seen) tell(lost Reason, err error) {
	if s == nil {
		return
	}
	s.r.Lost, s.r.Err = lost, err
	for _, u := range s.users {
		if w, ok := u.(Watcher); ok {
			w.RenewalAnswered(s.r)
		}
	}
}

// tellReleased tells the user that asked for the release.
func (g *Grant) tellReleased(reason Reason, cause error, late bool) {
	if w, ok := g.release.user.(Watcher); ok {
		w.ReleaseAnswered(reason, cause, late)
	}
}

// Users are those of the grant now, the first of them first.
func (g *Grant) Users() []User {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.user == nil {
		return nil
	}
	return append([]User{g.user}, g.more...)
}

// Trust is for how long a grant is trusted.
type Trust struct {
	Deadline time.Duration // until then
	Renewed  time.Duration // the start of the last statement that was acknowledged
	NoRenew  bool          // renewals are the user's own
	Ending   bool          // MaxHold ends it at the deadline, which no renewal moves
}

// Trusted tells it.
func (g *Grant) Trusted() Trust {
	g.mu.Lock()
	defer g.mu.Unlock()
	return Trust{g.deadline, g.renewedAt, g.noRenew, g.endingLocked()}
}
