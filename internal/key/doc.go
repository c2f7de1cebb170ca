// Package key is the state machine of a key that callers of a client wait for, or had just
// now: one pure function, [State.Step], from (state, event, time) to (state, action). It
// sends nothing, starts nothing and has no clock; package rowlock does what the action says.
//
//	              ┌──────────────── Granted, nobody waits ───────────────┐
//	              ▼                                                      │
//	Join ──▶ [None] ──Try──▶ [Trying] ──Refused──▶ [Resting] ◀──┐        │
//	                            ▲  │                   │ Due    │ held   │
//	                            │  └─▶ Granted         ▼        │        │
//	                            │                   a probe ────┘        │
//	                            └──────── free ────────┘                 │
//	         [Queued]: in the server's queue instead of Resting, where the store has one ─┘
//
// A probe is a cheap read: is the key free? The probe backoff is the time between two probes
// of a key that another client has, the retry backoff the time after a failure ([Backoff]).
//
// Transitions. Every row is a case of the test of Step. "-": the mode does not change. Again
// is a Join of the next caller; Began, ReleaseSent and Stream note what they say.
//
//	mode      event                                   mode      action
//	None      Join, this client has the key           Resting   Probe after Handoff, or half as long again beside a stream
//	None      Join, wanted by another, tenure over    Resting   Probe after the rest of the yield time; beside a stream Try; Queued: Queue
//	None      Join, this client has it, together      Trying    Try
//	None      Join                                    Trying    Try
//	any       Join                                    -         Nothing
//	Trying    Granted, others wait here               Resting   Probe after Handoff
//	Trying    Granted, others wait here, together     Trying    Try
//	Trying    Granted                                 None      None
//	Trying    Refused, the store is not sure          Trying    Try, in no batch with keys that are not pinned
//	Trying    Refused, its gate stands                Resting   Probe after the probe backoff, or when the gate is to be renewed
//	Trying    Refused by readers, without a gate      as below, but the probe after GateAfter at the latest
//	Trying    Refused by readers, the store's queue grants Resting Probe, as without a queue
//	Trying    Refused, the store has a queue          Queued    Queue
//	Trying    Refused                                 Resting   Probe after the probe backoff
//	Queued    Refused                                 Resting   Probe after the probe backoff
//	Trying    Failed                                  Resting   Try after the retry backoff
//	Trying    Refused, the store has turns            Queued    Queue; Probe meanwhile, each queueProbe
//	Trying    Refused, this client has the turn       Resting   Probe after the probe backoff
//	Queued    Turn                                    Trying    Try
//	Queued    Due                                     Queued    Probe now
//	Queued    Probed: free, as at the last probe      Trying    Try
//	Queued    Probed: free                            Queued    Probe soon
//	Queued    Probed: held, there is no hint          Trying    Try
//	Queued    Probed, ProbeFailed                     Queued    Probe after queueProbe; none in a queue that grants
//	Queued    Probed: kept by MinHold                 Resting   Rest until its end, Probe then; Probe after firstKeptProbe, ever later, to keptProbe
//	Queued    NoPlace, after a refusal                Resting   Probe after the probe backoff
//	Queued    NoPlace, to leave the key to another    Resting   Probe after the yield time
//	other     NoPlace                                 -         Nothing: the queue is asked for again after a refusal
//	Resting   Due, planned as a try                   Trying    Try
//	Resting   Due, the hint or the gate is to be renewed Trying Try; not while the key is kept
//	Resting   Due                                     Resting   Probe now
//	Resting   Probed: free                            Trying    Try
//	Resting   Probed: held by this client             Resting   Probe after Handoff, then twice as long, to a second
//	Resting   Probed: kept by MinHold                 Resting   Rest until its end, Probe then; Probe after firstKeptProbe, ever later, to keptProbe
//	Resting   Probed: held by readers, and no gate stands Trying Try, which leaves one
//	Resting   Probed: held by another, there is no hint Trying  Try, which leaves the hint
//	Resting   Probed: held by another, the own hint   Resting   Probe after nextProbe
//	Resting   Probed: free, another's hint has stood for long Resting Probe after yieldTime, once
//	Resting   Probed: held by another, together, late Resting   Queue, and Probe as below
//	Resting   Probed: held by another                 Resting   Probe after the probe backoff
//	Resting   Turn, together                          Trying    Try
//	Resting   ProbeFailed                             Resting   Probe after the retry backoff
//	Resting   ProbeFailed, and will again             Trying    Try: its answer says why
//	Resting   Woken by another's release              Trying    Try; a little later if this client had the key last, or not long ago
//	Resting   Woken, others wait in the server's queue Queued   Queue
//	Resting   Woken by this client's own release      -         Nothing
//	Resting   Freed                                   Trying    Try; others wait in the server's queue: Queued, Queue
//	Resting   Releasing, together                     Resting   HandOff, if the grant is young
//	Resting   Releasing, nobody else wants the key    Resting   HandOff; Probe after Handoff
//	Resting   Releasing, within the tenure            Resting   HandOff; Probe after Handoff
//	any       Releasing                               -         Release
//	Resting   Ended, together                         Trying    Try
//	Resting   Ended, together, wanted by another      Resting   Probe after the yield time; beside a stream Try
//	Resting   Woken, together, leaves it to another   -         Nothing
//	Resting   Ended: lost                             Trying    Try; others wait in the server's queue: Queued, Queue
//	Resting   Ended: released, nobody else wants it   Trying    Try
//	Resting   Ended: released, within the tenure      Trying    Try
//	Resting   Ended: released, wanted by another      Resting   Probe after the yield time; beside a stream Try; Queued: Queue
//	None      Ended                                   None      EndTurn
//	any       Left, nobody waits any more             None      Stop
//
// With Fair (line.go) these come first:
//
//	None      Join, wanted by another, tenure over    Trying    Try
//	Trying    Refused, others stand before            Resting   Probe after the probe backoff, times their number
//	Trying    Refused, others before; it has the turn Resting   Rest
//	Trying    Refused, others before; a queue         Queued    Queue; readers and slots only in one that gives turns
//	Resting   Due, others stand before                Trying    Try: it looks who stands before
//	Resting   Placed: the first now                   Resting   Probe now
//	Resting   Placed: others before; it has the turn  Resting   Rest
//	Queued    Placed: the first now; turns            Queued    Probe after lineProbe
//	Resting   Woken, at most one stands before        Trying    Try
//	Resting   Woken, several stand before             -         Nothing
//	Resting   Releasing, the first for certain        Resting   HandOff
//	Resting   Releasing                               Resting   Release
//	Resting   Ended, nobody stands before             Trying    Try
//	Resting   Ended, others stand before              Resting   Probe after the probe backoff
//	Resting   Ended, others before; a queue           Queued    Queue; readers and slots only in one that gives turns
//	Queued    Probed: free, the first for certain     Trying    Try
//
// Fairness (fairness.go). Whether another client wants the key is known from its hint: the
// answer to a release contains it, and while this client has the key it reads it by probes. If nobody else
// wants the key it is handed off from caller to caller here without end, and a lone caller
// takes it again at once. If another does, this client keeps the key for its tenure, which
// lasts Handoff from the moment at which it got the key from another; then the key goes back
// to the database, and this client leaves it alone for the yield time, in which the other
// must have probed it. The token that it finds then says whether another took the key
// meanwhile. If the key was left alone twice and nobody took it, the hint is ignored until it
// is renewed or another replaces it. The client whose hint there is probes more often than the others, and
// a client that has just given the key up begins with the longest time between probes.
//
// Where the store gives turns (driver.Turner) clients wait in the server's queue. The client
// that has the turn keeps it with the key, until the key goes back. If another client had the
// turn before, or has the key when this client gets the turn, that client may queue again; this counts
// as a hint from it. The clients behind probe the
// key now and then, and leave a free one to the client that has the turn, unless that client
// does not take it. The longer the callers here had to wait, the more of the others do, and the
// shorter is the tenure. So it is where the server's queue grants (driver.Queuer); a client that
// was granted the key behind another takes it that the other waits again.
//
// Modes. The callers of a client that want a key exclusively, as readers (driver.Shared) and
// in slots (driver.Slot) have a state for each. Holds of the latter two may be beside each other
// ("together", Env.Together): that this client has one keeps it from no other, so its callers try
// although it has the key, and there is no tenure: a hold that ends while callers wait here is
// left to another client whose hint there is. Exclusive callers take
// callers here that wait in another mode for another client that wants the key (Env.Others).
// An attempt of an exclusive caller may leave a gate, which keeps readers and slots out: it is
// renewed as a hint is, for every key, and its client probes and does not stand in the
// server's queue, because no other can have the key before the gate ends. In a queue that
// grants (driver.Queuer) callers of all modes wait for an exclusive hold, so that writers that
// come again and again do not starve readers; for readers and slots nobody waits there.
//
// Late (late.go). Readers and slots of a store that gives turns ask for one when they have seen the
// key go from hold to hold for long, and go on probing beside it.
//
// Fair. Callers that wait with a ticket are served in the order of the tickets, whatever hints
// and tenures say. The first in the line behaves as above; those behind it look now and then, or
// wait in the server's queue, which keeps the order of the line as far as it can: a turn that
// comes too early is given up. The key is handed
// off only where no other ticket stands before the one that this client has for its next caller.
//
// Where to change what: the times in backoff.go and at the head of step.go and fairness.go;
// what is sent, and when, in step.go; who gets a released key in fairness.go. A new event or
// mode is a row above, a case of TestStep, then the code.
package key
