// Package key is the two machines of a key that callers of a client wait for, or had just now: pure functions from (state,
// event, time) to (state, action). They send nothing, start nothing and have no clock; package keys does what the action says.
//
// [Line] is the machine of every store whose keys have lines (driver.Liner): its picture and its table are in line.go. What both
// machines have alike is in [Waits].
//
// [Queue] is that of a store whose server keeps those who wait, and grants (driver.Queuer: SelectForUpdate). It differs in what
// follows a refusal, and in how it learns that others want the key:
//
//	              ┌──────────── Granted, nobody waits ────────────┐
//	              ▼                                               │
//	Join ──▶ [None] ──Try──▶ [Trying] ──by an exclusive hold──▶ [Queued] ──▶ Granted
//	                            ▲  │                                │
//	                            │  └──by readers or slots──▶ [Resting] ◀─┐ Refused, NoPlace
//	                            │                              │ Due     │ held
//	                            └──────────── free ──── a probe ─────────┘
//
// Every row is a case of TestQueue. Rows that are not there are as in the table of Line, where nobody stands.
//
//	mode      event                                   mode      action
//	None      Join, left to another just now          Queued    Enqueue; together: Resting, Probe after the rest of aloneTime
//	Trying    Refused, by an exclusive hold           Queued    Enqueue
//	Trying    Refused: readers or slots, pinned       Resting   Probe after the time between probes
//	Queued    Refused                                 Resting   Probe after the time between probes
//	any       Failed                                  Resting   Try after the retry backoff
//	Queued    NoPlace                                 Resting   Probe after the time between probes, or the rest of aloneTime
//	Resting   Due, the hint or the gate is to be renewed Trying Try
//	Resting   Probed: free                            Trying    Try
//	Resting   Probed: neither hint nor gate stands    Trying    Try, which leaves one
//	Resting   Probed                                  Resting   Probe after the time between probes
//	Resting   Freed                                   Trying    Try
//	Resting   Releasing, nobody wants it or within the tenure Resting HandOff; Probe after Handoff
//	Resting   Ended: released, wanted, tenure over    Queued    Enqueue; together: Resting, Probe after aloneTime
//	Resting   Ended                                   Trying    Try
//
// Fairness of a Queue. Whether another client wants the key is known from its hint: the answer to a release contains it, and while this
// client has the key it reads it by probes. A client that was granted the key behind another takes it that the other waits again. If
// nobody else wants the key it is handed off from caller to caller here without end. If another does, this client keeps the key for its
// tenure, which lasts Handoff from the moment at which it got the key, and less the longer its callers had to wait for it; then the key
// goes back to the database, and this client waits at the end of the server's queue. Readers and slots, which are in no such queue,
// leave the key alone for aloneTime, in which the other must have probed it.
//
// Where to change what: what is sent, and when, in line.go and queue.go, with the times at the head of each; what both do in waits.go.
// A new event or mode is a row of a table, a case of its test, then the code.
package key
