package driver

import (
	"context"
	"time"
)

// Abilities of a Store, found by type assertion. They are optional, but for one: a Store without lines ([Liner]) is a [Queuer].

// Reaper removes rows that have been dead for longer than olderThan: at most MaxReap
// a call, so that a call is short. It is housekeeping, never correctness: it must
// not touch a live hold, nor let a token go backwards; a grace too small for that
// is an error. The number of rows of which the server said that they were removed is returned:
// what a statement had removed that the server ended, or whose reply was lost, is not in it.
type Reaper interface {
	Reap(ctx context.Context, olderThan time.Duration) (int, error)
}

// Lister lists keys that begin with prefix and come after the key after, in the
// order of their bytes, at most limit of them. Free keys that were not reaped yet are
// among them. A limit below 1 is ErrInvalid.
type Lister interface {
	List(ctx context.Context, prefix, after string, limit int) ([]Info, error)
}

// Forcer ends whatever hold a key has, also one that has expired and was not taken, and
// what keeps the key after a hold (MinHold), and raises its token. The Info is the state
// before. A key without a hold is no error. Where an open guarded transaction keeps the key
// it is an error, or Info.Pinned says so.
type Forcer interface {
	ForceRelease(ctx context.Context, key string) (Info, error)
}

// Closer frees what the Store holds. The program that opened a Store closes it, after the
// clients that use it; a Client does not.
type Closer interface {
	Close() error
}

// Queuer lets programs wait in the server's own queue, so that a waiter neither probes nor loses its place, and its server grants. A
// Store has it (Limits.Queue), or lines (Liner), and not both: it is one of the two ways to wait.
type Queuer interface {
	// AcquireWait is Acquire for one key that waits until the key is granted or ctx
	// ends. It may also answer Held, with how long the key cannot be had whatever
	// happens (MinHold), or because readers or slots have it (Result.Shared), or Pinned, and
	// is then called again later. It calls begin
	// right before it sends the first statement of each round that may end in the
	// grant: the holder's trust counts from there. When ctx ends it leaves the queue:
	// nothing of it may stay in the server for longer than Limits.LockWait. An error
	// that matches ErrNoPlace, with nothing applied, says to wait without the queue.
	AcquireWait(ctx context.Context, req Request, begin func()) (Result, error)
}

// Turner wakes the first of a line, by a queue of the server that grants nothing. It is used where Limits.Turns says so, beside lines.
type Turner interface {
	// WaitTurn waits until it is this client's turn. The turn is the client's until it calls end, or until the client dies; then it
	// is the next one's. It decides nothing and only wakes: a look tells who has the key. end does not block, and may be
	// called again. When ctx ends the client leaves the queue, and nothing of it stays there for longer than
	// Limits.LockWait. An error says to go on without the turn; one that matches ErrNoPlace says no more than that.
	WaitTurn(ctx context.Context, key string) (end func(), err error)
}

// Waiter tells when keys may be free, to callers that observe them (rowlock.Client.Observe). It
// only wakes them.
type Waiter interface {
	// Watch calls free for each key that may have become free, until ctx ends or the
	// stream fails. It calls ready when nothing that happens from then on is missed.
	// free does not block. After an error the engine opens the stream again, after 0.2 to
	// 30 s; after one that is Lasting, in 30 s.
	Watch(ctx context.Context, ready func(), free func(key string)) error
}

// Counter counts the statements sent to the server since the Store was made.
type Counter interface {
	Statements() uint64
}

// Explainer tells what may keep statements from being answered.
type Explainer interface {
	// Explain is asked when a caller gives up a wait for the first answer, so that the
	// error says more than that time was over. It looks at this moment, sends nothing
	// and does not wait; nil: nothing to be seen from here.
	Explain() error
}

// Clock lets a Store bring its own monotonic clock: the engine then counts trust
// by it. The memory store does, so that a program under testing/synctest, whose
// time is fake, sees one time everywhere. A Store that speaks to a server leaves
// it out; the engine takes the machine's clock, which goes on during sleep.
type Clock interface {
	Now() time.Duration // since any fixed moment
}

// HoldLimiter is a Store that can have only so many holds at a time.
type HoldLimiter interface {
	// HoldLimit is how many Exclusive holds the Store has room for, those that it has included;
	// 0: any number. It does no I/O, and may change.
	HoldLimit() int
}
