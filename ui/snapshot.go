package ui

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// maxOld is how old an answer may be that is shown to a viewer who comes while the database does not answer.
const maxOld = time.Minute

// snapshot is what a poll has found. It is not changed after it was published.
type snapshot struct {
	number int
	begin  time.Time // of the statement
	at     time.Time // its end
	rows   []row     // in the order of their keys
	more   bool      // there are keys beyond them

	needs []*row // those that a human is to look at

	// failing is zero unless the poll has no answer: it is then since when none has. The rows are those of
	// the last poll that had one, and readAt is its end.
	failing time.Time
	readAt  time.Time // zero: nothing is known of any key
}

// find returns the row of a key, or nil if the database has none.
func (s *snapshot) find(key string) *row {
	i, ok := slices.BinarySearchFunc(s.rows, key, func(r row, key string) int { return strings.Compare(r.Key, key) })
	if !ok {
		return nil
	}
	return &s.rows[i]
}

// known reports whether the keys were ever read.
func (s *snapshot) known() bool { return !s.readAt.IsZero() }

// live reports whether the rows are what the database has just said.
func (s *snapshot) live() bool { return s.failing.IsZero() && s.known() }

// asOf is the time to which the durations in the rows are counted, by this machine's clock.
func (s *snapshot) asOf(now time.Time) time.Time {
	if s.live() {
		return now
	}
	return s.readAt
}

// unanswered is the snapshot of the next poll, begun at that time, which has no answer. It keeps the rows of the
// last answer for those who have been looking since (fresh), and for others if that answer is not old.
func (s *snapshot) unanswered(began time.Time, fresh bool) *snapshot {
	next := &snapshot{begin: began, at: time.Now(), failing: began}
	if fresh && !s.failing.IsZero() {
		next.failing = s.failing
	}
	if fresh || began.Sub(s.readAt) < maxOld {
		next.rows, next.more, next.readAt = s.rows, s.more, s.readAt
	}
	return next
}

// old is asOf in ms, 0 if the database answers.
func (s *snapshot) old() int64 {
	if s.live() {
		return 0
	}
	return max(millis(s.readAt), 1)
}

// problem says that the database does not answer; empty: it does.
func (s *snapshot) problem() string {
	switch {
	case s.failing.IsZero():
		return ""
	case !s.known():
		return "The database does not answer, or not with a list of keys. Nothing is known of any key. The program's log says why."
	}
	return "The database has not answered since " + clock(s.at, s.failing) + ". What is shown is what it said at " + clock(s.at, s.readAt) +
		"; it may be wrong by now. The program's log says more."
}

// readClock is when the keys were read, for people; empty: never.
func (s *snapshot) readClock() string {
	if !s.known() {
		return ""
	}
	return clock(s.at, s.readAt)
}

// none says what an empty list means.
func (v view) none(s *snapshot) string {
	which := "key"
	if v.prefix != "" {
		which = "key that begins with " + printable(v.prefix)
	}
	switch {
	case !s.known():
		return "It is not known which keys are held: the database has not answered."
	case v.after != "":
		return "There are no more keys."
	case s.more:
		return fmt.Sprintf("None of the first %d keys is held. There are more: type the beginning of a key.", len(s.rows))
	case v.all && s.live():
		return "The database has no " + which + "."
	case v.all:
		return "At " + s.readClock() + " the database had no " + which + "."
	case s.live():
		return "No " + which + " is held."
	}
	return "No " + which + " was held at " + s.readClock() + "."
}

// caption says what a list of keys is.
func (v view) caption(s *snapshot) string {
	if !s.known() {
		return ""
	}
	what := "Keys that are taken, in the order of their names"
	if v.all {
		what = "All keys that the database knows, in the order of their names"
	}
	if !s.live() {
		what += ", as the database said at " + s.readClock()
	}
	return what
}
