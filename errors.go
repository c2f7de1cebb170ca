package rowlock

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/keys"
)

// What can go wrong, by name. Test with errors.Is: each is wrapped with the
// operation, the key and the cause.
var (
	// ErrHeld: somebody else has the key. The error is a *HeldError.
	ErrHeld = errors.New("rowlock: held")

	// ErrReleasing: what is in the way is most likely a hold of this Client's own. It released the key or
	// lost it, or gave up an attempt that may have got it, and the database has not answered in time
	// that this hold is ended. The Client repeats that, and at the latest the hold expires: try again.
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

	// Waiting is how many programs wait for the key, this caller's own among them if it waited. They may be all that keeps the
	// key from the caller: then Owner and Left are not known. With SelectForUpdate: 0, it is not
	// known.
	Waiting int
}

func (e *HeldError) Error() string {
	if e.Waiting > 0 && e.Owner == "" && e.Left == 0 {
		return fmt.Sprintf("rowlock: %q is not free for this caller: programs that wait come first (%d)", e.Key, e.Waiting)
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

// toldOf is the error that callers get where err is why they cannot have key: a *HeldError or ErrReleasing for a
// refusal, and any other as it is. What may be a hold of this client's own is not called held.
func toldOf(key string, err error) error {
	r := keys.Refused(err)
	switch {
	case r == nil:
		return err
	case r.OwnRelease, r.PerhapsOwn:
		return ErrReleasing
	}
	return &HeldError{Key: key, Owner: r.Owner, Left: r.Left, Pinned: r.Pinned, Shared: r.Shared, Waiting: r.Standing}
}

// shown is an owner as it is, unless something in it would spoil a line: anything may
// have been written there.
func shown(owner string) string {
	if q := strconv.Quote(owner); q != `"`+owner+`"` {
		return q
	}
	return owner
}
