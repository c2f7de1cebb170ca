package key

import (
	"time"

	"github.com/rowlock/rowlock/driver"
)

// Machine is that of one key: a [Line], or a [Queue] where the server keeps those who wait.
type Machine interface {
	// Step moves the state by what has happened, and says what to do about it.
	Step(e Event, now time.Duration, env Env) Action

	// HandedOff: the first caller here got the grant and waits no more. The action says when to probe the key next.
	HandedOff(now time.Duration, env Env) Action

	// Open reports whether a caller that comes now would try at once.
	Open(now time.Duration, env Env) bool
}

// Mode says what this client does about a key.
type Mode uint8

const (
	None    Mode = iota
	Trying       // an attempt is on its way
	Resting      // something is planned
	Queued       // in the server's own queue
)

// Env is what Step needs to know of its client.
type Env struct {
	Handoff time.Duration

	// Together: holds of these callers may be beside each other (driver.Shared, driver.Slot).
	// Others: callers of this client wait for the key in another mode.
	Together, Others bool

	// Of a Line. Fair: each turn serves one caller. Wakes: the server can wake this client when the holder of the key gives its turn up,
	// if this client is the first (driver.Turner). Bell: it has been asked to. Usual: how long this client has keys, on average; 0: not known.
	Fair, Bell, Wakes bool
	Usual             time.Duration

	// Of a Queue. Client is the client's number. Hints: it may renew its hint on one more key now.
	Client uint32
	Hints  bool
}

// Event is what happens to a key. Only the fields that belong to its kind are set.
type Event struct {
	Kind    Kind
	Left    time.Duration // Refused, Probed held: until the key is free by itself; 0: not known
	Pinned  bool          // Refused, Probed held
	Apart   bool          // Refused: the store is not sure; the key is to go again without others
	Free    bool          // Probed
	Kept    bool          // Probed held: it was released, and nobody can have it before Left is over (MinHold)
	Lasting bool          // Failed, ProbeFailed: it will fail again
	Silent  bool          // Failed, ProbeFailed: the connection was dead
	Took    time.Duration // Failed, ProbeFailed; Probed, of a Line
	Served  int           // Granted: callers here that got the grant, and wait no more

	// Of a Line. Place and Standing are as in driver.View, of an entry that has just been refused, looked at, or
	// added by a release; Place 0 of an Ended: not known. Stands, of an Ended: the release was to add the next entry.
	Place, Standing int
	Age             time.Duration // Probed: how long the present hold has lasted
	Stands          bool          // Refused: it was passed the key

	// Of a Queue.
	Phase bool        // Refused, Probed held: by readers or slots
	Gated bool        // Refused: the gate of the attempt stands. Probed: a gate stands
	Hint  driver.Hint // Began, Probed, Ended
	Known bool        // Began, Ended: Hint is what the database has
	Lost  bool        // Ended: not by a release
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
	Turn                    // the server has woken this client (driver.Turner)
	Due                     // what was planned is due
	Probed                  // the database was asked for the key's state
	ProbeFailed             // and did not answer
	Freed                   // a grant of this client in another mode has ended
	Releasing               // a grant of this client is being released: what becomes of it?
	Ended                   // a grant of this client has ended, and its release was answered
)

// Do is what is to be done.
type Do uint8

const (
	Nothing Do = iota
	Try        // send an attempt for the first caller, at once or after a while
	Probe      // ask for the key's state, at once or after a while
	Enqueue    // wait in the server's queue
	HandOff    // hand the grant off to the first caller; Machine.HandedOff says what comes next
	Release    // release the grant to the database
	Stop       // nobody waits: withdraw the attempt, leave the queue, cancel what is planned
	EndTurn    // give the turn up (driver.Turner)
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
)
