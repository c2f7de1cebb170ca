package rowlock

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/grant"
)

// What can go wrong, by name. Test with errors.Is: each is wrapped with the
// operation, the key and the cause.
var (
	// ErrHeld: somebody else has the key. The error is a *HeldError.
	ErrHeld = errors.New("rowlock: held")

	// ErrReleasing: this Client gave the key back or lost it, or gave up an attempt that may have
	// got it, and the database has not answered the release of that hold in time. Whether the key
	// is free is not known, and it is not called held, until that hold has expired. The release is
	// repeated: try again.
	ErrReleasing = errors.New("rowlock: the release of a hold that this client had, or may have got, of the key is not answered")

	// ErrLost: the hold ended before it was released. The error is a *LostError.
	ErrLost = errors.New("rowlock: lost")

	// ErrReleased: the hold was released by its holder.
	ErrReleased = errors.New("rowlock: released")

	// ErrSelfDeadlock: the context of Acquire comes from a lease of the same key,
	// so the call would wait for itself; or that of Close from a function of Do.
	ErrSelfDeadlock = errors.New("rowlock: this context already holds the key")

	// ErrAlreadyRan: the run has its mark, so its effects are committed. They were
	// not made again.
	ErrAlreadyRan = driver.ErrAlreadyRan

	// ErrConflict: the database undid a transaction because of another one (a
	// deadlock, a lock wait that ended, a write conflict). Nothing of it took effect;
	// run it again from its beginning. The database's own error is wrapped.
	ErrConflict = driver.ErrConflict

	// ErrUnknownOutcome: a commit was sent and not answered, and nobody could be asked
	// what became of it. It took effect or it did not, or it still may.
	ErrUnknownOutcome = driver.ErrUnknownOutcome

	// ErrChanged: ForceReleaseIf of a Store found another hold of the key than it was to
	// end, or none. Nothing was changed.
	ErrChanged = driver.ErrChanged

	// ErrClosed: the Client or the Store was closed.
	ErrClosed = driver.ErrClosed

	// ErrInvalid: an argument or option is not acceptable; the text names the
	// value and what would be right. Nothing was sent.
	ErrInvalid = driver.ErrInvalid

	// ErrNotSupported: the server cannot do it, for example a MongoDB standalone.
	ErrNotSupported = driver.ErrNotSupported

	// ErrSchema: the lock tables are missing or older than this library: run Migrate.
	ErrSchema = driver.ErrSchema
)

// HeldError says who has a key. It matches ErrHeld. Where the answer to an attempt does not say who that is, and its caller
// does not wait (TryAcquire, NoWait), the key is read once more.
type HeldError struct {
	Key    string
	Owner  string        // of who had it when that was asked; empty: not known, for example because it was free by then
	Left   time.Duration // until the hold ends if it is not renewed, by the database's clock; 0: not known
	Pinned bool          // the hold is over, but an open transaction of its holder must end first
	Shared bool          // it is held by leases of Shared or Slots; of a request that is not exclusive: where that is known

	// Waiting, with Fair: so many programs wait before this caller, whose turn comes first;
	// the key itself may be free, and Left is not known.
	Waiting int

	aheadLeft time.Duration // until they are over by themselves
}

func (e *HeldError) Error() string {
	if e.Waiting > 0 {
		return fmt.Sprintf("rowlock: %q is not free for this caller: %d that wait with Fair come first", e.Key, e.Waiting)
	}
	s := fmt.Sprintf("rowlock: %q is held", e.Key)
	if e.Shared {
		s += ", with Shared or Slots,"
	}
	if e.Pinned {
		s = fmt.Sprintf("rowlock: %q is pinned by an open transaction", e.Key)
	}
	if e.Owner != "" {
		s += " by " + shown(e.Owner)
	}
	if e.Left > 0 {
		s += fmt.Sprintf(" for up to %v longer", e.Left.Round(time.Millisecond))
	}
	return s
}

// Is makes a HeldError match ErrHeld.
func (e *HeldError) Is(target error) bool { return target == ErrHeld }

// shown is an owner as it is, unless something in it would spoil a line: anything may
// have been written there.
func shown(owner string) string {
	if q := strconv.Quote(owner); q != `"`+owner+`"` {
		return q
	}
	return owner
}

// Reason says why a hold was lost. (It is made of a grant.Reason by lostReasons; a lease hears of
// it in user.Ended. A new one goes into Reasons, and into the tables of ui and rowlockcli too.)
type Reason string

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
