package undo

import "github.com/rowlock/rowlock/driver"

// Left is what this client may have left of a key: of what a caller had, and of attempts.
type Left struct {
	had        bool // it has not expired, and its release was not answered
	unanswered bool // an attempt, whose undo was not answered
	attempt    bool // the same, or its undo was answered and may have overtaken it
	place      bool // a place in the line, and it may have been passed the key before it was given up
	open       bool // any of these but a place, or what has expired: its transaction may be open
}

// Left is what there is to be ended now of holds of key in these modes.
func (u *Unresolved) Left(key string, of func(driver.Mode) bool) (l Left) {
	u.mu.Lock()
	defer u.mu.Unlock()
	now := u.store.Now()
	for _, t := range u.byKey[key] {
		if !of(t.Hold.Mode) {
			continue
		}
		if t.Place || t.MayCome {
			l.place = true
			continue
		}
		l.open = true
		if t.Hold.Undo {
			l.attempt, l.unanswered = true, l.unanswered || !t.answered
		} else {
			until := t.Sent
			if t.Prolonged {
				until = u.arrival(t)
			}
			l.had = l.had || !t.answered && now <= until+max(t.Hold.TTL, t.Hold.Keep)
		}
	}
	return l
}

// WithAttempt is l with an attempt on its way for which nobody waits any more.
func (l Left) WithAttempt() Left {
	l.attempt, l.unanswered, l.open = true, true, true
	return l
}

// Or is what was left at either of two times.
func (l Left) Or(o Left) Left {
	return Left{l.had || o.had, l.unanswered || o.unanswered, l.attempt || o.attempt, l.place || o.place, l.open || o.open}
}

// MayHave reports whether an attempt or a place that was left may have the key, or have had it a moment ago.
func (l Left) MayHave() bool { return l.had || l.attempt || l.place }

// Place reports whether it was a place in the line.
func (l Left) Place() bool { return l.place }

// Had reports whether a caller had it.
func (l Left) Had() bool { return l.had }

// Explains reports whether the refusal of an attempt may be by what was left: own if it names this client, pinned if it says that a
// transaction is open.
func (l Left) Explains(own, pinned bool) bool {
	return l.had || l.unanswered || own && l.attempt || pinned && l.open
}
