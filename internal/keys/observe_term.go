package keys

import (
	"slices"
	"time"

	"github.com/rowlock/rowlock/driver"
)

// storedTerm is a term as the database has it: its hold, none of a phase and of a key that is free, and the token of the row.
type storedTerm struct {
	hold  driver.HoldID
	token int64
}

// maxTerms is how many terms are remembered of an observed key.
const maxTerms = 16

// is reports whether t, a term that was told, is what an answer says.
func (t storedTerm) is(answer storedTerm) bool {
	return t.token == answer.token && (t.hold == answer.hold || t.hold == driver.HoldID{} || answer.hold == driver.HoldID{})
}

// shows reports whether an answer is of the term that was told last.
func (o *observedKey) shows(answer storedTerm) bool { return o.terms[len(o.terms)-1].is(answer) }

// insists reports whether an answer with a smaller token than was told is of a later term, and not of a server that is behind: it was
// told of no term before, and says the same for so long that there were several answers.
func (o *observedKey) insists(answer storedTerm, now time.Duration) bool {
	if slices.ContainsFunc(o.terms, func(t storedTerm) bool { return t.is(answer) }) {
		return false
	}
	if o.older != answer {
		o.older, o.olderAt = answer, now
	}
	return now >= o.olderAt+observeEvery
}
