package key

import (
	"time"

	"github.com/rowlock/rowlock/driver"
)

// State is what a client knows of one key. The zero value is a key of which it knows
// nothing.
type State struct {
	Mode    Mode
	Waiting int // callers that wait here
	Held    int // grants of this client, with those whose release was not answered yet

	Since   time.Duration // when the tenure began: this client got the key from another; 0: none
	Backoff Backoff
	Apart   bool // the attempt goes in no batch with keys that are not pinned
	Gated   bool // the last attempt left a gate, or renewed it (driver.Request.Gate)

	hint       foreignHint
	standing   standing
	planned    Do   // Resting: Try or Probe
	yielding   bool // this client leaves the key to another, until yieldUntil
	yieldUntil time.Duration
	asked      time.Duration // the last attempt that left or renewed the hint
	keptUntil  time.Duration // until when nobody can have the key (MinHold); 0: not known
	keptFrom   time.Duration // when a probe said so first; 0: none did
	keptToken  int64         // of which hold
	ownProbe   time.Duration // between the last two probes of a key that this client has
	ownProbeAt time.Duration // Resting: when the next of them is due
	probing    bool          // Resting: it is on its way
	sawFree    bool          // Trying, after a probe that found the key free
	turn       bool          // it is this client's turn in the server's queue
	turnWaited bool          // another client had the turn before, and may wait for it again

	waitingSince time.Duration // when the first of the callers that wait here came
	tenureEnded  time.Duration // when the last tenure ended
	lastToken    int64         // the database's token of this client's last grant, or at which it left the key to a hint that stood for long
	tenure       time.Duration // how long this client keeps a key that another wants
	unserved     int           // callers that waited here when the tenure began, and have not had the key since
	ungated      bool          // readers or slots have the key, and no gate stands, or another's
	seen         seen          // Queued: what the last probe found
	ahead        int           // tickets of others that stand before this client's, as was said last
	ownPush      bool          // the stream has not told of this client's own release yet
	hadLast      bool          // this client had the key last, as far as the stream tells
	unasked      int           // releases of slots since one asked for the hint
	firstSlot    time.Duration // when this client got its first slot of the key, or reader; 0: none yet
	late         late          // Env.Late: whether those that wait here ask for a turn
}

// Mode says what this client does about a key.
type Mode uint8

const (
	None    Mode = iota
	Trying       // an attempt is on its way
	Resting      // something is planned
	Queued       // in the server's own queue
)

// foreignHint is what is known of another client's hint.
type foreignHint struct {
	by        uint32
	until     time.Duration // when it ends, unless renewed
	at        time.Duration // when this was learned; 0: not yet
	unclaimed int           // times that this client left the key alone and nobody took it
}

// seen is what a probe found.
type seen struct {
	free  bool
	token int64 // of the last grant
}

// Env is what Step needs to know of its client.
type Env struct {
	Client  uint32
	Handoff time.Duration
	Queue   bool // the store has a queue in the server that grants (driver.Queuer)
	Turns   bool // the store has a queue in the server that gives turns (driver.Turner)
	Push    bool // the stream of releases is open (driver.Waiter)
	Hints   bool // this key's hint may be renewed: the client does so for a bounded number

	// Together: holds of these callers may be beside each other (driver.Shared, driver.Slot).
	// Others: callers of this client wait for the key in another mode.
	Together, Others bool

	// Late: holds of these callers may be together, and the store gives turns: callers that see the key go
	// from one client to the next for long ask for one.
	Late bool

	// Fair: the caller that is next waits with a ticket (driver.Tickets). First: no other
	// ticket stands before this client's, for certain.
	Fair, First bool
}

// Event is what happens to a key. Only the fields that belong to its kind are set.
type Event struct {
	Kind    Kind
	Left    time.Duration // Refused, Probed held: until the key is free by itself; 0: not known
	Pinned  bool          // Refused, Probed held
	Phase   bool          // Refused, Probed held: by readers or slots
	Gated   bool          // Refused: the gate of the attempt stands. Probed: a gate stands
	Apart   bool          // Refused: the store is not sure; the key is to go again without others
	Hint    driver.Hint   // Probed, Ended
	Known   bool          // Ended, Granted: Hint is what the database has
	Free    bool          // Probed
	Kept    bool          // Probed held: it was released, and nobody can have it before Left is over (MinHold)
	Token   int64         // Probed: of the last grant
	Lasting bool          // Failed, ProbeFailed: it will fail again
	Silent  bool          // Failed: the connection was dead
	Took    time.Duration // Failed
	Lost    bool          // Ended: not by a release
	Waited  bool          // Turn: another client had it
	Ahead   int           // Refused, Placed: tickets of others that stand before this client's
}

// Kind is the kind of an event.
type Kind uint8

const (
	Join        Kind = iota // a caller begins to wait
	Left                    // a caller left: it gave up, or was answered
	Began                   // a grant of this client has begun
	Granted                 // the attempt was granted
	Refused                 // the attempt was refused
	Failed                  // the attempt was not answered
	Again                   // the next caller is to hear the same from an attempt of its own
	NoPlace                 // the server's queue has no place
	Turn                    // the turn of this client has come
	Due                     // what was planned is due
	Probed                  // the database was asked for the key's state
	ProbeFailed             // and did not answer
	Woken                   // the stream says that the key was released
	Freed                   // a grant of this client in another mode has ended
	Releasing               // a grant of this client is being released: what becomes of it?
	ReleaseSent             // its release is about to be sent, and a live stream will tell of it
	Ended                   // a grant of this client has ended, and its release was answered
	Stream                  // the stream has opened or ended
	Placed                  // the ticket of this client was put, or renewed
)

// Do is what is to be done.
type Do uint8

const (
	Nothing Do = iota
	Try        // send an attempt for the first caller, at once or after a while
	Probe      // ask for the key's state, at once or after a while
	Queue      // wait in the server's queue; After: when to probe meanwhile, 0: not
	Rest       // nobody can have the key for a while: leave the server's queue, give the turn up, and probe after it
	HandOff    // hand the grant off to the first caller; State.HandedOff says what comes next
	Release    // release the grant to the database
	Stop       // nobody waits: withdraw the attempt, leave the queue, cancel what is planned
	EndTurn    // give the turn in the server's queue up
)

// Action is what a step asks for.
type Action struct {
	Do     Do
	After  time.Duration // 0: at once
	Jitter Jitter        // of After, so that programs do not probe in step
}

// Jitter is the random part of a time.
type Jitter uint8

const (
	NoJitter    Jitter = iota
	JitterThird        // the time × 2/3 to 4/3
	JitterFull         // the time × 0 to 1
)
