package driver

import (
	"context"
	"time"
)

// A line is the programs that wait for a key, in the order in which they came. It is kept where the key is, in its row
// or document, so that a release hands the key to the first of the line in its own commit. See rules 19 to 23.

const (
	// MaxLine is how many entries a line has at most. A request that finds it full is Held, without a place.
	MaxLine = 64

	// EntryTime is how long an entry is alive that its program does not refresh, by the database's clock: so long a
	// program that has died stands in the line, unless it is the first before.
	EntryTime = 6 * time.Second

	// MaxEntryTime bounds Request.EntryTime. An entry that ends later than twice that from now was left by a clock that has
	// since been set back, and is dead.
	MaxEntryTime = time.Minute

	// MinClaim and MaxClaim bound Request.Claim.
	MinClaim = time.Millisecond
	MaxClaim = time.Minute
)

// Liner is a Store whose keys have lines (Limits.Line). Every Store has them that is no Queuer.
type Liner interface {
	// Look reads who has each key and who stands in its line. It changes nothing and waits for no transaction. It never tells
	// of what may still be undone: of a hold that is not acknowledged by a majority, or by a server that may be
	// behind the one that grants, because the holder trusts its hold from the moment at which the look was sent.
	// No two entries have the same key and mode.
	Look(ctx context.Context, entries []Entry) ([]View, error)
}

// Entry names a request that stands in the line of a key, or did. With a zero ID only the line is asked for.
type Entry struct {
	Key   string
	ID    HoldID
	Mode  Mode
	Slots int // of Mode Slot
}

// View is what a look says of a key, to one who asked by an Entry.
type View struct {
	Place    int           // of the entry: 1 is the first; 0: it does not stand
	Standing int           // live entries in the line
	First    time.Duration // since when the first of them stands, as an age; 0: none does

	// Mine: the request of the entry has a hold. The key was passed to it, or its acquire was answered and the answer was lost.
	// Token, Stored, Phase and Slot are those of the hold, as in a Result that is Granted.
	Mine          bool
	Token, Stored int64
	Phase         int64
	Slot          int

	Left   time.Duration // Mine: of the hold, as read. Else until the key is free for the entry by itself; 0: it is, or that is not known
	Age    time.Duration // how long the present hold has lasted: of Mine the own one, else of a phase any of it; 0: not known
	Owner  string        // of the hold, as far as that is known
	Free   bool          // no hold keeps the key from the entry: an acquire gets it, or passes it to the first of the line
	Kept   bool          // released, but MinHold keeps it from everybody for Left
	Pinned bool          // Free, but an open transaction of the last holder must end first
	Shared bool          // it is held by readers or slots
}
