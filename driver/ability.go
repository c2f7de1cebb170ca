package driver

import (
	"context"
	"time"
)

// Optional abilities of a Store, found by type assertion.

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

// Queuer waits for a key in the server's own queue, so that a waiter neither
// probes nor loses its place. It is used where Limits.Queue says so.
type Queuer interface {
	// AcquireWait is Acquire for one key that waits until the key is granted or ctx
	// ends. It may also answer Held, with how long the key cannot be had whatever
	// happens (MinHold), or because readers or slots have it (Result.Shared), or Pinned, and
	// is then called again later. It calls begin
	// right before it sends the first statement of each round that may end in the
	// grant: the holder's trust counts from there. When ctx ends it leaves the queue:
	// nothing of it may stay in the server for longer than Limits.LockWait. An error
	// that matches ErrNoPlace, with nothing applied, says to wait without the queue.
	//
	// An Exclusive request that is Fair waits first until no ticket stands before its own, as
	// far as the queue can see to it, and is Held, with Ahead, where one does.
	AcquireWait(ctx context.Context, req Request, begin func()) (Result, error)
}

// Turner puts the clients that wait for a key in order, by a queue of the server that
// grants nothing. It is used where Limits.Turns says so.
type Turner interface {
	// WaitTurn waits until it is this client's turn to try for the key. The turn is the
	// client's until it calls Turn.End, or until the client dies; then it is the next one's.
	// It decides nothing: whether the key is
	// free decides the acquire, also that of a client whose turn it is not. When ctx ends
	// the client leaves the queue, and nothing of it stays there for longer than
	// Limits.LockWait. An error says to wait without the queue; one that matches
	// ErrNoPlace says no more than that.
	//
	// ticket names the key. Of a client whose callers are Fair it has a Seq, and is renewed while
	// the client waits; place is what was said of it a moment ago, or zero. Such clients get
	// their turns in the order of the line, as far as the queue can see to it. One whose turn
	// comes too early is refused by the acquire, gives the turn up and waits again.
	WaitTurn(ctx context.Context, ticket Ticket, place Place) (Turn, error)
}

// Turn is a client's turn in a queue of the server.
type Turn struct {
	Waited bool   // another client had the turn when it came
	First  bool   // of a client with a ticket: less than TicketTime ago no live one of another stood before it
	End    func() // ends the turn; does not block, and may be called again
}

// Waiter tells when keys may be free, so that callers that wait need not probe often. It
// only wakes them; whether a key is free decides the acquire.
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

// TicketTime is how long a ticket is alive, by the database's clock, unless it is renewed.
const TicketTime = time.Second

// Ticket is the place of a waiting client in the line of a key. ID and Seq name it.
type Ticket struct {
	Key string
	ID  HoldID // the client's: 16 random bytes. It may have several tickets of one ID, of which all but the last are about to be removed
	Seq int64  // its place (Place.Seq); 0: it has none yet
}

// Place is what the database says of a ticket.
type Place struct {
	Seq   int64         // when it came, by the database's clock: never 0. Tickets stand in the order of Seq, equal ones in that of their IDs
	Ahead int           // live tickets of others, with another ID, that stand before it
	Left  time.Duration // until the last of those is over, unless it is renewed

	Nearest int64 // the Seq of the nearest of those, for Turner; 0: not known, or nobody stands before it
}

// Line is what the database knows of those who wait for a key.
type Line struct {
	Waiting int       // live tickets
	Since   time.Time // when the first of them came; zero: there is none
}

// Inform adds the line to what is known of its key.
func (l Line) Inform(i *Info) { i.Waiting, i.WaitingSince = l.Waiting, l.Since }

// Tickets puts the clients that wait for a key into the order in which they came: a Store
// that has it takes Requests that are Fair. A ticket is alive for TicketTime after it was put
// or renewed, by the database's clock; one that is over counts for nobody, and a renewal makes
// it live again, in its old place. Tickets decide whose turn it is, never who has a key: that
// decides the key's row, as ever, so nothing that becomes of a ticket makes two holders. Two
// clients that come at the same moment may stand in either order.
type Tickets interface {
	// PutTickets puts each ticket without a Seq behind all that the key has, and renews the
	// others. It is one step for all. A ticket that was removed may come back by a renewal
	// that was late; it ends by itself.
	PutTickets(ctx context.Context, tickets []Ticket) ([]Place, error)

	// RemoveTickets removes tickets. One that is not there is no error.
	RemoveTickets(ctx context.Context, tickets []Ticket) error

	// Lines tells who waits for each key. A plain read.
	Lines(ctx context.Context, keys []string) ([]Line, error)
}
