package mongolock

import (
	"cmp"
	"fmt"

	"github.com/rowlock/rowlock/driver"
)

// A document may have been changed by hand: a field of another type, a token at the
// end of its range. Such a document must not spoil the commands and answers that it
// shares with others, nothing of it may wrap around, and an error for its key says
// what is wrong.

// corruptError is the error for a key whose document somebody has changed. Without it a key
// goes on with tokens by the clock, and nobody was granted one that was out of range.
func (r row) corruptError(step string) *driver.Error {
	return &driver.Error{Lasting: true, Err: fmt.Errorf("mongo: %s %q: its document%s: %s", step, r.key, corruptAdvice, cmp.Or(r.corrupt, "it has no token"))}
}

// corruptAdvice: the fence beside the document stays: with it the next grant waits for the guarded
// transactions that are open.
const corruptAdvice = " was changed by hand: delete it, and it alone, which ends a hold that it may show"

// corruptDocument reports whether the server could not compute with what it found in a
// document. That one it has not changed; of others in the command the majority may be
// late.
func corruptDocument(err error) bool {
	switch command, _ := codes(err); command {
	case 14, 15, 16554, 16555, 16556, 16612, 5166401: // types that do not fit, dates out of range
		return true
	}
	return false
}
