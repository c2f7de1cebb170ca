package driver

import (
	"context"
	"encoding/hex"
	"time"
)

// TokenRange is the distance between the tokens of two grants of a key, at
// least: room for the local holders of the first one.
const TokenRange = 1024

// MaxToken is the largest token that a Store may grant: the rest of its range, which
// the engine hands off in memory, fits into an int64 too. A stored token that leaves
// no room below it was written by hand. The key cannot be granted then: the Store
// says so in an error, and in none of its answers a token wraps around.
const MaxToken = 1<<63 - TokenRange

// MaxKey is the longest key, in bytes.
const MaxKey = 255

// MaxReap is the most rows that one call of Reaper.Reap removes: as many mean that
// there may be more.
const MaxReap = 500

// MinGrace is the smallest grace of Reap, and of removing marks of runs. An acquire that waited writes
// a token from before its wait; were the row of a later one gone by then, tokens would go
// backwards. No statement waits for an hour.
const MinGrace = time.Hour

// HoldID names one attempt to take a key, and the hold that comes of it: 16
// random bytes made by the client. All zero bytes name no hold.
type HoldID [16]byte

// String is the ID in hex, for logs.
func (id HoldID) String() string { return hex.EncodeToString(id[:]) }

// Request asks for one key.
type Request struct {
	Key   string
	ID    HoldID
	Mode  Mode          // which other holds of the key may be beside this one
	Owner string        // for people, at most 255 bytes; never trusted
	TTL   time.Duration // how long the grant is good for, by the database's clock
	Keep  time.Duration // MinHold: the key stays taken until the grant + Keep, after a release and after a crash; 0: none

	// Guarded says that the lease will be used in guarded transactions.
	Guarded bool

	// Pinned says that the last answer for this key was Pinned: an acquire that
	// ran into the blocking transaction again would only occupy a connection, so
	// a Store looks first, without waiting, whether the key is still pinned.
	Pinned bool

	// Apart says that the last answer was Pinned with Result.Apart: the call has no keys
	// but such and those that are Pinned, and the answer must be exact.
	Apart bool

	// Of Mode Slot: Slots is the number of slots, 1 to MaxSlots, and the grant is of one
	// below it. Slot is the one to try first, which this client had last; -1: any.
	Slots, Slot int

	// Of a Store with lines. Stand says that a caller waits: if the key is refused, the request stands in its line,
	// or goes on to stand there. Its entry is alive for EntryTime from this request on, or until its end before, if that is
	// later. When the key is passed to it the key is its own for Claim, and longer only by a renewal.
	Stand     bool
	EntryTime time.Duration
	Claim     time.Duration

	// Of a Store with a queue in the server; in another the fields from here on are zero. Client is the number of the client that
	// asks, from MinClient to MaxClient: a grant clears that client's own hint on the key, and no other's. 0: it has none.
	Client uint32

	// Wants says that a caller waits: if the key is refused (Held), the attempt leaves
	// the hint of Client on the key for HintTime, where there is none. It renews its own
	// when half of it is gone, and never touches another's before that is over. An
	// attempt without Wants writes nothing when it is refused.
	Wants bool

	// Gate, of an Exclusive request that Wants, is the ID of the request before it of the
	// same waiting client, which left a gate: this one takes it over. Zero: none did.
	// GateTime is how long the gate stands.
	Gate     HoldID
	GateTime time.Duration

	// Waited, of Mode Shared or Slot, says that its caller was refused before: if the
	// request begins a phase, exclusive requests leave no gate in it for GateAfter.
	Waited bool
}

// Mode says which holds of a key may be beside each other:
//
//	             Exclusive   Shared   Slot
//	Exclusive    no          no       no
//	Shared       no          yes      yes
//	Slot         no          yes      if it is another slot
//
// A time in which a key is held by Shared and Slot only is a phase. It has a token; see
// rules 15 to 18.
type Mode uint8

const (
	Exclusive Mode = iota
	Shared         // a read lock
	Slot           // one of n places
)

func (m Mode) String() string {
	switch m {
	case Exclusive:
		return "exclusive"
	case Shared:
		return "shared"
	case Slot:
		return "slot"
	}
	return "invalid mode"
}

// Modes is a set of modes.
type Modes uint8

// ModesOf is the set of these modes.
func ModesOf(modes ...Mode) (set Modes) {
	for _, m := range modes {
		set |= 1 << m
	}
	return set
}

// Has reports whether m is in the set.
func (s Modes) Has(m Mode) bool { return s&(1<<m) != 0 }

const (
	// MaxSlots is the largest number of slots of a key.
	MaxSlots = 1000

	// GateTime is how long a gate stands, by the database's clock, unless its client takes
	// longer than that from attempt to attempt.
	GateTime = 2 * time.Second

	// GateAfter is the time after the beginning of a phase in which no gate is left, where
	// the request that began the phase had Waited.
	GateAfter = 100 * time.Millisecond
)

// Hold names one hold in Renew and Release.
type Hold struct {
	Key    string
	ID     HoldID
	Token  int64 // the fencing token of the holder's lease
	Stored int64 // the token under which the database keeps the hold (Result.Stored); a guard names this one

	Mode  Mode  // the Request's
	Slot  int   // Mode Slot: which one (Result.Slot); -1: not known, of an Undo whose attempt was not answered
	Phase int64 // Mode Shared and Slot: the token of the phase (Result.Phase); a guard names this one too

	TTL     time.Duration // Renew: the hold is good for this long from the server's now
	MaxHold time.Duration // Renew: never past the grant + MaxHold; 0: no limit. The engine shortens TTL too

	// Keep, of a Release, is the Request's, or less: the key stays taken until the grant + Keep. A
	// Store may keep it for as long as the Request said.
	Keep time.Duration

	// Guarded says that a guard of this lease may be open in a transaction. The Release of such a hold passes the key to nobody.
	Guarded bool

	// Owner, of a Renew with Confirm, is the holder's. Confirm says that the key was passed to this hold and that the renewal is to
	// write what its request asked for and a pass cannot: Owner, Keep (never less than was written before), Guarded. If an open transaction of an earlier holder must
	// end first the answer is Pinned: the hold was extended, and must be confirmed again.
	Owner   string
	Confirm bool

	// Next, of a Release: a request with Stand of the same client and key, which stands at the end of the line from the same
	// step on, before the key is passed.
	Next *Request

	// Asks says that the answer to this Release should have Wanted, where that costs at
	// most one cheap read for the whole call.
	Asks bool

	// Undo marks a Release that takes back an attempt which never reached a
	// caller: the key is free at once, whatever Keep the attempt asked for.
	Undo bool
}

// Status is the answer for one Request or Hold.
type Status uint8

const (
	Unknown  Status = iota // no answer, or one that does not say; Result.Err may tell why
	Granted                // acquire: the key is held by this ID
	Held                   // acquire: somebody else has it, for Result.Left longer
	Pinned                 // acquire: free by its expiry, but another transaction must end first
	Alive                  // renew: the hold lives and was extended
	Released               // release: this call ended the hold. Renew: it was released before
	Taken                  // renew, release: a newer hold has the key
	Forced                 // renew, release: the hold was ended by ForceRelease
	Removed                // renew, release: there is no row of this key, or no hold of this ID in it
)

var statusNames = [...]string{"unknown", "granted", "held", "pinned", "alive", "released", "taken", "forced", "removed"}

func (s Status) String() string {
	if int(s) < len(statusNames) {
		return statusNames[s]
	}
	return "invalid status"
}

// Result is the answer for one Request or Hold of a call, at the same index.
type Result struct {
	Status Status
	Token  int64 // Granted: the fencing token
	Stored int64 // Granted: the token in the database's row, where it differs from Token; else equal to it
	// Left, of a Granted request with Stand whose ID had the key before the call, because it was passed to it or an answer was lost: how long
	// the hold lasts, which is left as it is. Else, Granted: 0.
	Left   time.Duration // Held: until the key is free, by the server's clock; 0: not known. Renew, Alive: until the hold ends, where known
	Owner  string        // Held, Pinned: whose, where it costs no extra trip; else the engine asks Inspect, for callers that do not wait
	Wanted Hint          // Released: the hint on the key, where the Hold Asks or it costs nothing. Granted: another's hint, where it costs nothing. None: nobody waits, as far as is known
	Err    error         // Unknown: the cause. May be an *Error. Taken, Forced, Removed: why, where more is known

	Slot  int   // Granted, Mode Slot: which one
	Phase int64 // Granted, Mode Shared and Slot: the token of the phase

	// Shared, of a request that is Held: by readers or slots, or behind a gate. A Store with a
	// Queue says so of every such request, another may of Exclusive ones only. Gated, of an
	// Exclusive request that is Held or Pinned: its own gate stands, so no new ones come.
	Shared, Gated bool

	// Of a Store with Limits.Line. Place, of a request with Stand that is Held or Pinned, and of the Next of a Release: where it stands
	// in the line, 1 being the first; 0: it does not, or that is not known. Standing: how many live entries the
	// line has, that one included, and First since when the first of them stands; 0: none, or not known.
	Place, Standing int
	First           time.Duration

	// Apart, of an acquire that is Pinned in a call of several keys: other keys of the
	// call are, and it would take too long to find out which, while those that are
	// not wait for their answers. The engine sends the key again at once, with Request.Apart.
	Apart bool

	// Final, of a Release with Undo: the attempt can never take effect any more,
	// however late it arrives, for example because this call ended its hold and an
	// ID is sent only once. Without it the engine repeats the undo until an attempt
	// that is still on its way would have arrived. So it does for a request that stood, whose ID was sent again
	// and again, if one of these attempts was not answered.
	Final bool
}

// Info is what the database knows of a key, by the database's clock.
type Info struct {
	Key    string
	Held   bool          // not free: held, or kept by MinHold after its release
	Kept   bool          // released, but MinHold keeps it from everybody for Left
	Pinned bool          // free by its expiry or granted, but an open transaction of the old holder must end first
	Owner  string        // the holder's, or the last one's; empty of a key that is Held: not known (SelectForUpdate, while the next holder is being granted the key)
	Hold   HoldID        // of a key that is Held: names the hold, in the row and in log lines; zero: not known, or of a phase
	Token  int64         // of the last grant, as the row has it (Result.Stored); a lease's own may be larger: see rowlock.Lease.Token
	Since  time.Time     // when it was granted; zero if not known
	Left   time.Duration // until the key is free by itself; 0 if it is free
	Wanted Hint          // a client that waits for the key, as far as is known

	// Of a key that is Held in a phase: the live holds of each mode, the lowest slot that
	// none of them has, and whether a gate keeps new ones out. Token is that of the phase,
	// Since when the oldest of them was granted, Left the time until the last one ends, Owner that of one of them.
	Readers, Slots int
	FreeSlot       int
	Gated          bool

	// How many programs wait for the key, and since when the first of them does. Of a Store with Limits.Line: the live entries
	// of the key's line. Another one (SelectForUpdate) knows only that at least one waits: Waiting is 1 then, and WaitingSince zero.
	Waiting      int
	WaitingSince time.Time
}

// InPhase reports whether the key is held by readers or slots.
func (i Info) InPhase() bool { return i.Held && i.Readers+i.Slots > 0 }

// Hint is what a client that waits for a key has left on the key's row: that it waits.
// It decides nothing, and ends by itself. It tells the holder that another wants the key,
// and an operator that somebody waits. Of several clients that wait one is named.
type Hint struct {
	Client uint32        // its number; 0: there is no hint
	Left   time.Duration // until the hint is over
}

const (
	// HintTime is how long a hint lasts, by the database's clock.
	HintTime = 2 * time.Second

	// MaxHintTime bounds what is taken for a hint: one that ends later was left by a
	// clock that has since been set back, and is none.
	MaxHintTime = 10 * time.Second

	// MaxClient is the largest number of a client. A database keeps a hint as one number,
	// so that it changes as one: when it ends, in milliseconds since 1970, times
	// MaxClient + 1, plus the client.
	MaxClient = 1<<21 - 1

	// MinClient is the smallest.
	MinClient = QueueClient + 1

	// QueueClient is no client's number: it is that of a hint for whoever waits in a queue of
	// the server (rule 13).
	QueueClient = 1
)

// Limits says what a Store can do. It is constant.
type Limits struct {
	Batch    int           // largest number of Requests, Holds or keys in one call, at least 1
	Renewals int           // largest number of Holds in one Renew, if that is more than Batch
	MinTTL   time.Duration // smallest TTL; 0: any
	LockWait time.Duration // the longest a step waits for another transaction; 0: none does

	// InFlight is how many batches of acquires, and how many of releases, are best
	// under way at once: concurrent calls then share statements. When the oldest has
	// been away for SlowBatch the engine sends one more, up to 4. 0: a batch of keys
	// is not cheaper here than each alone, so each goes alone and at once.
	// Of renewals there are as many under way, and one more while one of them has been
	// away for 100 ms; those with less than a second of trust left wait for none.
	InFlight  int
	SlowBatch time.Duration

	// Modes are the modes that the Store has beside Exclusive. The engine sends no others.
	Modes Modes

	// How programs wait for a key: Line says that the keys of the Store have lines (Liner), Queue that the server keeps those who
	// wait, and grants (Queuer). A Store has one of the two; rowlock.New refuses any other.
	Line, Queue bool

	// Turns says that the WaitTurn of a Store with lines works: see Turner. A client asks for its turn when it is the first of a
	// line, and keeps it while it has the key.
	Turns bool

	// Heartbeat says that an Exclusive hold also hangs on a session which the server ends
	// when it is silent: Renew of one must come every min(TTL/10, 1s), and notices a
	// session that was ended. Only the Store that was granted such a hold knows it
	// as its own: to another one its acquire is Held, its renewal and release Unknown.
	Heartbeat bool
}

// Store keeps locks in a database. All methods are safe for concurrent use, and
// each is one short atomic step for each key of the call. A slice of results has
// the length of the request; an error for the whole call means Unknown for each
// entry of it (unless it is an *Error that says NotApplied). No two entries of a
// call have the same key, but entries of Renew and Release that are all of Mode Shared or
// Slot: those have different IDs.
type Store interface {
	// Acquire tries to take each key, once. Answers: Granted, Held, Pinned, Unknown.
	Acquire(ctx context.Context, reqs []Request) ([]Result, error)

	// Renew extends each hold. Answers: Alive, Taken, Forced, Removed, Released, Unknown.
	Renew(ctx context.Context, holds []Hold) ([]Result, error)

	// Release ends each hold. Answers: Released, Taken, Forced, Removed, Unknown.
	Release(ctx context.Context, holds []Hold) ([]Result, error)

	// Inspect reads the state of each key and changes nothing. It is also the
	// probe of waiters, so it is cheap and never waits for a transaction.
	Inspect(ctx context.Context, keys []string) ([]Info, error)

	// Limits is called once, by rowlock.New. It does no I/O.
	Limits() Limits
}
