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
	Value int64  `json:"value,omitempty"` // Write, Read, Commit: see there
	Owner string `json:"owner,omitempty"` // Observe: whose hold it is (the Client that holds it)
	Error string `json:"error,omitempty"`

	Age time.Duration `json:"age,omitempty"` // Observe: how long ago the hold was granted, by the database's clock; 0: not known
}

// Kind is the kind of an event.
type Kind string

// The kinds. A Write, Read or Commit is recorded before it is sent too, with End 0.
const (
	Acquire Kind = "acquire" // Acquire or TryAcquire. OK: a lease with Token. Refused: held by another. Failed: any other error
	Renew   Kind = "renew"   // Lease.Renew. OK, Lost or Failed
	Look    Kind = "look"    // Lease.Err. OK: nil. Lost or Released
	Done    Kind = "done"    // Lease.Done was closed without a Release: Begin is when that was seen
	Release Kind = "release" // Lease.Release. From Begin on the holder does nothing under the lease. OK or Lost

	Commit Kind = "commit" // a guarded transaction that added a row to the ledger of its key; Value is the number of that row: what it found, raised by one (the first is 1). 0, and Sent 0: it did not come so far. OK, Lost, Conflict, Failed (nothing took effect), Unknown
	Write  Kind = "write"  // a write of Value, unique per key, with Token to a fenced register. OK, Stale, Failed (nothing took effect), Unknown
	Read   Kind = "read"   // a read of the register: OK with Value and Token, or Failed

	Observe Kind = "observe" // Inspect, by a program that takes no locks. Held or Free, or Failed

	Killed Kind = "killed" // the process Client was killed: at End it was gone. Client is not the recorder
	Frozen Kind = "frozen" // the process Client stood still from Begin to End
	Fault  Kind = "fault"  // the fault named by Key, from Begin until all was whole again at End, in Space, or in all if that is empty; Error: what it did, for people
	Ledger Kind = "ledger" // one row of a ledger as the database has it after the round, in the order of commits: Value its number, Token whose it is
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
)
