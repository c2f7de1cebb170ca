package driver

import (
	"context"
	"time"
)

// Optional abilities of a Store, found by type assertion.

// Reaper removes rows that have been dead for longer than olderThan: at most 500
// a call, so that a call is short. It is housekeeping, never correctness: it must
// not touch a live hold, nor let a token go backwards; a grace too small for that
// is an error. The number of rows removed is returned.
type Reaper interface {
	Reap(ctx context.Context, olderThan time.Duration) (int, error)
}

// Lister lists keys that begin with prefix and come after the key after, in the
// order of their bytes, at most limit of them.
type Lister interface {
	List(ctx context.Context, prefix, after string, limit int) ([]Info, error)
}

// Forcer ends whatever hold a key has and raises its token. The Info is the
// state before.
type Forcer interface {
	ForceRelease(ctx context.Context, key string) (Info, error)
}

// Closer frees what the Store holds. Whoever opened a Store closes it, after the
// clients that use it; a Client does not.
type Closer interface {
	Close() error
}

// Counter counts the statements sent to the server since the Store was made.
type Counter interface {
	Statements() uint64
}

// Clock lets a Store bring its own monotonic clock: the engine then counts trust
// by it. The memory store does, so that a program under testing/synctest, whose
// time is fake, sees one time everywhere. A Store that speaks to a server leaves
// it out; the engine takes the machine's clock, which goes on during sleep.
type Clock interface {
	Now() time.Duration // since any fixed moment
}
