package driver

import "errors"

// What a Store reports by name; package rowlock exports them under the same names.
var (
	ErrInvalid      = errors.New("rowlock: invalid argument")
	ErrNotSupported = errors.New("rowlock: not supported")
	ErrSchema       = errors.New("rowlock: the lock tables do not fit")
	ErrClosed       = errors.New("rowlock: closed")

	ErrAlreadyRan     = errors.New("rowlock: the run took effect before")
	ErrConflict       = errors.New("rowlock: undone because of another transaction")
	ErrUnknownOutcome = errors.New("rowlock: it is not known whether the transaction was committed")
)

// ErrNoPlace is the error of a Queuer whose queue has no place for the key now. The
// engine then waits as it does for a Store without a queue.
var ErrNoPlace = errors.New("no place in the server's queue")

// Error tells the engine what a failed call means. An error that is not an
// *Error is taken as passing and unknown, the careful reading.
type Error struct {
	// Lasting: it will fail the same way next time (wrong credentials, a certificate
	// that cannot be verified, missing table, a server that is read-only by configuration), so a waiting caller
	// gets it at once. Otherwise (connection lost, failover, too many connections)
	// it is tried again while the caller waits. A loop that has worked before (Lead,
	// Every) waits until somebody has mended it.
	Lasting bool

	// NotApplied: the server has proved, or it is certain because nothing was
	// sent, that nothing was changed. No undo is needed.
	NotApplied bool

	// Silent: the connection gave no byte for a second (see rule 12) while the server
	// answered on a newly dialled one, so the Store closed it. That is no answer. What had been sent
	// is unknown unless NotApplied says otherwise, and the engine sends it again at
	// once: an acquire under a new ID, after which it undoes the old one; a renewal, a
	// release or an undo as it was, because it names its hold.
	Silent bool

	// NoRoom: the store has no connection left that the hold needs (see HoldLimiter). It is tried
	// again while the caller waits; but who waits for the last of several keys gives the others
	// back, because another may wait for the connections that those have.
	NoRoom bool

	Err error
}

func (e *Error) Error() string { return e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

// IsLasting reports whether err says that trying again is of no use.
func IsLasting(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Lasting
}

// IsSilent reports whether err says that a connection was given up because it was
// silent, while the server answers on another.
func IsSilent(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Silent
}

// IsNoRoom reports whether err says that the store has no connection left for a hold.
func IsNoRoom(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.NoRoom
}

// IsNotApplied reports whether err proves that nothing was changed.
func IsNotApplied(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.NotApplied
}
