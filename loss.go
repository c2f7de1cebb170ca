package rowlock

import (
	"fmt"

	"github.com/rowlock/rowlock/internal/grant"
)

// Reason says why a hold was lost.
type Reason string

// A Reason is made of a grant.Reason by lostReasons; a lease hears of it in user.Ended. A new one goes into Reasons,
// and into the tables of ui and rowlockcli too.

// The reasons of a LostError.
const (
	ReasonExpired Reason = "expired"  // it could not be renewed in time, or its holder stood still for too long
	ReasonTaken   Reason = "taken"    // the database has a newer hold of the key
	ReasonRemoved Reason = "removed"  // the database has no such hold any more: its row is gone, or the session that it hung on
	ReasonForced  Reason = "forced"   // somebody used ForceRelease (and nobody took the key since: then it is taken)
	ReasonMaxHold Reason = "max-hold" // the time set by MaxHold is over
	ReasonClosed  Reason = "closed"   // the Client was closed while the lease was held
)

// LostError says that a hold ended before it was released. It matches ErrLost.
type LostError struct {
	Key    string
	Token  int64
	Reason Reason
	Err    error // the last failed renewal, or the end of the session that the hold hung on, if that was the cause
}

var reasonTexts = map[Reason]string{
	ReasonExpired: "it was not renewed within its TTL",
	ReasonTaken:   "another holder has the key",
	ReasonRemoved: "the database has no such hold any more",
	ReasonForced:  "it was released by force",
	ReasonMaxHold: "its MaxHold is over",
	ReasonClosed:  "the client was closed",
}

func (e *LostError) Error() string {
	s := fmt.Sprintf("rowlock: lease of %q (token %d) lost: %s", e.Key, e.Token, reasonTexts[e.Reason])
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Is makes a LostError match ErrLost.
func (e *LostError) Is(target error) bool { return target == ErrLost }

// Unwrap is the cause, if one is known.
func (e *LostError) Unwrap() error { return e.Err }

var lostReasons = map[grant.Reason]Reason{
	grant.Expired: ReasonExpired, grant.MaxHold: ReasonMaxHold, grant.Taken: ReasonTaken,
	grant.Removed: ReasonRemoved, grant.Forced: ReasonForced, grant.Closed: ReasonClosed, grant.CutOff: ReasonClosed,
}

// lostError is the *LostError of a grant that ended with reason.
func lostError(key string, token int64, reason grant.Reason, cause error) *LostError {
	return &LostError{Key: key, Token: token, Reason: lostReasons[reason], Err: cause}
}

// For observers: Reasons are those of a LostError.
func Reasons() []Reason {
	return []Reason{ReasonExpired, ReasonTaken, ReasonRemoved, ReasonForced, ReasonMaxHold, ReasonClosed}
}
