package keys

import "time"

// Refusal is why a caller cannot have a key now: somebody has it, or a hold of this client's own is in the way. It is made
// of what the store said; what callers are told of it is made in one place, toldOf.
type Refusal struct {
	Owner           string        // of who has the key; empty: not known
	Left            time.Duration // until that is over by itself; 0: not known
	Pinned          bool          // the hold is over, but an open transaction of its holder must end first
	apart           bool          // pinned, but that is not certain: see pinning
	Shared          bool          // it is held by leases of Shared or Slots
	mine            bool          // it is this attempt that has it
	place, Standing int           // in a Store with lines: see driver.Result

	// OwnRelease: most likely it is a hold of this client that no caller has, and whose end is not answered. PerhapsOwn: it may be, or
	// another's: nobody is named, and a place in the line that this client has left may have been passed the key.
	OwnRelease, PerhapsOwn bool
}

// Error implements error, so that a refusal can stand among the other causes of a wait.
func (r *Refusal) Error() string { return "the key is not free" }

// ByOwnRelease is the refusal by a hold of this client that is being ended.
var ByOwnRelease = &Refusal{OwnRelease: true}

// Refused is the refusal that err is; nil: it is none.
func Refused(err error) *Refusal {
	r, _ := err.(*Refusal)
	return r
}
