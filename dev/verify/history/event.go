// Package history is what the clients of a round did and saw, as they recorded it:
// one line of JSON for each event, in one file for each process, written at once so
// that it outlives a kill -9. Package check reads it.
package history

import "time"

// Event is one call with its reply, one look at a lease, or something that was done
// to the system.
//
// Times are of the machine's clock that goes on through everything (CLOCK_BOOTTIME):
// the same for all processes, not for the servers, whose clocks are stepped.
type Event struct {
	ID     int64  `json:"id"`              // unique within its Client and file; the later of two with one ID counts
	Client string `json:"client"`          // the process, "p3"; one that was killed and replaced has another name
	Lease  int64  `json:"lease,omitempty"` // ID of the Acquire event whose lease this is about
	Space  string `json:"space"`           // the lock space, "version": two spaces have nothing in common
	Key    string `json:"key,omitempty"`   // text: bytes that are no UTF-8 do not survive JSON
	Kind   Kind   `json:"kind"`
	Result Result `json:"result,omitempty"`

	Begin time.Duration `json:"begin"`          // just before the call
	Sent  time.Duration `json:"sent,omitempty"` // Commit: just before COMMIT was called
	End   time.Duration `json:"end,omitempty"`  // just after the reply; 0: none was seen

	Token int64  `json:"token,omitempty"` // of the lease; Observe: that of the last grant
	Value int64  `json:"value,omitempty"` // Write, Read, Commit: see there. Acquire of a further term of a Lead: its first Acquire event; Begin is when the term before was over, and Lead asks later
	Owner string `json:"owner,omitempty"` // Observe: whose hold it is (the Client that holds it)
	Error string `json:"error,omitempty"`

	Reason string `json:"reason,omitempty"` // of a lease that was lost: rowlock.Reason
	Raised string `json:"raised,omitempty"` // the database's conflict (deadlock, lock wait, write conflict, duplicate key) that the library gave to its caller without saying so: its number or name
	Run    string `json:"run,omitempty"`    // Once, Locked, Effect and Mark: what takes effect once, unique per Space and Key. Of a reader's Commit, and Seen: which commit it is

	Mode  Mode  `json:"mode,omitempty"`  // Acquire, Commit and Ledger: of the hold. Observe: InPhase, if readers or slots have the key
	Slot  int   `json:"slot,omitempty"`  // with Mode Slot: its number. Observe in a phase: how many slots are held
	Slots int   `json:"slots,omitempty"` // Acquire with Mode Slot: the n that its caller asked for
	Group int64 `json:"group,omitempty"` // Acquire: ID of the first Acquire event of its AcquireAll; all of one call have its times and its Result. Commit: of the leases that one transaction was guarded with
	Fair  bool  `json:"fair,omitempty"`  // Acquire: with Fair, in the order of the line
	Try   bool  `json:"try,omitempty"`   // Acquire: it did not wait

	// Observe: how long ago the hold was granted, by the database's clock; 0: not known. Look: the longest time that
	// its worker, which looks again and again, got no processor in the last TTL.
	Age time.Duration `json:"age,omitempty"`
}

// Mode is the mode of a hold; empty: exclusive.
type Mode string

// The other modes.
const (
	Shared  Mode = "shared"
	Slot    Mode = "slot"
	InPhase Mode = "phase" // of an Observe: readers (Value of them), slots, or both have the key
)

// Kind is the kind of an event.
type Kind string

// The kinds. A Write, Read, Commit, Once or Locked is recorded before it is sent too, with End 0.
const (
	Acquire Kind = "acquire" // Acquire or TryAcquire. OK: a lease with Token. Refused: held by another. Failed: any other error
	Renew   Kind = "renew"   // Lease.Renew. OK, Lost or Failed
	Look    Kind = "look"    // Lease.Err. OK: nil. Lost or Released
	Done    Kind = "done"    // Lease.Done was closed without a Release: Begin is when that was seen
	Release Kind = "release" // Lease.Release. From Begin on the holder does nothing under the lease. OK or Lost

	Commit Kind = "commit" // a guarded transaction that added a row to the ledger of its key; Value is the number of that row: what it found, raised by one (the first is 1). Each slot of a key has a ledger of its own. A reader's adds none: Value is the number that it found, which may be 0, and it adds a row of its own (Seen). Sent 0: it did not come so far. OK, Lost, Conflict, Failed (nothing took effect), Unknown
	Write  Kind = "write"  // a write of Value, unique per key, with Token to a fenced register. OK, Stale, Failed (nothing took effect), Unknown
	Read   Kind = "read"   // a read of the register: OK with Value and Token, or Failed

	Once   Kind = "once"   // Once, or MarkRun in a transaction of the caller's, of Run. OK: its effect was committed; Ran: ErrAlreadyRan; Lost, Conflict, Failed (nothing took effect), Unknown
	Locked Kind = "locked" // a transaction of the caller's under LockTx, which found so many effects of its key as Run says and added one. No lease. OK, Conflict, Failed (nothing took effect), Unknown

	Term   Kind = "term"   // the function of a Lead ran, under Lease, from Begin to End; Value names the call of Lead. Result and Sent: of its last look at the lease, OK or Lost
	Leader Kind = "leader" // what an Observe yielded; Value names the loop. Held, Free or Failed, with the Token of the last term that was seen

	Observe Kind = "observe" // Inspect, by a program that takes no locks. Held or Free, or Failed

	Killed Kind = "killed" // the process Client was killed: at End it was gone. Client is not the recorder
	Frozen Kind = "frozen" // the process Client stood still from Begin to End
	Fault  Kind = "fault"  // the fault named by Key, from Begin until all was whole again at End, in Space, or in all if that is empty; Error: what it did, for people
	Ledger Kind = "ledger" // one row of a ledger as the database has it after the round, in the order of commits: Value its number, Token whose it is
	Seen   Kind = "seen"   // one row of the readers of a key as the database has it after the round: the number Value that the transaction Run of the Client Owner found in the ledger, under Token
	Effect Kind = "effect" // one row of the effects as the database has it after the round: of Run, written in the event Value of the Client Owner
	Mark   Kind = "mark"   // the mark of a Run as the database has it after the round, made with Token
	Pulse  Kind = "pulse"  // a durable write of one row on a new connection, beside the locks, by a program that no fault of the network is before. OK or Failed
	Reach  Kind = "reach"  // the same by the process Client, on the way that its Stores go
)

// Result is what came of a call.
type Result string

// The results.
const (
	OK       Result = "ok"
	Refused  Result = "refused"
	Failed   Result = "failed"
	Lost     Result = "lost"
	Released Result = "released"
	Stale    Result = "stale"
	Conflict Result = "conflict"
	Unknown  Result = "unknown"
	Held     Result = "held"
	Free     Result = "free"
	Ran      Result = "ran"
)
