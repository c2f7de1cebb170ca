package rowlockcli

import (
	"errors"
	"fmt"
	"time"

	"github.com/rowlock/rowlock"
)

// timeUp reports whether --max-hold is what ends the lease, or has ended it, and not a failure.
func (r *run) timeUp() bool {
	if r.f.maxHold == 0 {
		return false
	}
	if err := r.lease.Err(); err != nil {
		return ofMaxHold(err)
	}
	// The grant was trusted for --ttl but for a margin, and no renewal is trusted for longer than --max-hold but for the same.
	end := r.firstEnd.Add(time.Duration(r.f.maxHold - r.f.ttl))
	return !time.Now().Add(r.lease.Left()).Before(end.Add(-time.Duration(r.f.ttl / 20)))
}

// ofMaxHold reports whether a lease was lost because its time was over.
func ofMaxHold(err error) bool {
	var lost *rowlock.LostError
	return errors.As(err, &lost) && lost.Reason == rowlock.ReasonMaxHold
}

// endedByMaxHold is the error of a command that took too long, and was ended in time.
func (r *run) endedByMaxHold(code int) error {
	return &ExitError{Code: exitMaxHold, Err: fmt.Errorf("the command was ended: it had %s for --max-hold %s (its own exit code: %d)", quoted(r.keys), short(time.Duration(r.f.maxHold)), code)}
}
