package driver

import (
	"context"
	"errors"
	"time"
)

// What operators' tools ask of a Store beside [Lister] and [Forcer].

// ErrChanged: the key has not the hold any more that ForceReleaseIf was to end.
var ErrChanged = errors.New("rowlock: the key's hold has changed")

// ForcerIf is a Forcer that ends a hold only if it is the one that was seen: between the look and
// the release the key can have gone to another, who is not the one that was in the way.
type ForcerIf interface {
	// ForceReleaseIf is ForceRelease of seen.Key if the key still has the hold that seen, an answer of
	// Inspect or List, tells of: its Hold and its Token. Otherwise the error matches ErrChanged, and
	// nothing was changed.
	//
	// A key that readers and slots have is in a phase, which has no ID: its Token names it. All
	// holds of the phase are ended, also those that came after the look; if none is left, or the
	// key has had an exclusive hold meanwhile, the error matches ErrChanged.
	ForceReleaseIf(ctx context.Context, seen Info) (Info, error)
}

// Mark says that a run of a key has taken effect: see Once and MarkRun of the stores.
type Mark struct {
	Key, Run string
	Token    int64         // of the hold under which it was made
	At       time.Time     // when, by the database's clock
	Age      time.Duration // how long ago, by the database's clock
}

// MarkLister lists marks.
type MarkLister interface {
	// Marks are those of a key, the newest first, at most limit of them. A limit below 1 is ErrInvalid.
	Marks(ctx context.Context, key string, limit int) ([]Mark, error)
}
