// Package key is the machine of a key that callers of a client wait for, or had just now:
// one pure function, [State.Step], from (state, event, time) to (state, action). It sends
// nothing, starts nothing and has no clock. Who calls it does what the action says.
//
//	              ┌──────────────── Granted, nobody waits ───────────────┐
//	              ▼                                                      │
//	Join ──▶ [None] ──Try──▶ [Trying] ──Refused──▶ [Resting] ◀──┐        │
//	                            ▲  │                   │ Due    │ held   │
//	                            │  └─▶ Granted         ▼        │        │
//	                            │                   a look ─────┘        │
//	                            └──────── free ────────┘                 │
//	         [Queued]: in the server's queue instead of Resting, where the store has one ─┘
//
// Transitions. Every row is a case of the test of Step.
//
//	mode      event                                   mode      action
//	None      Join, this client has the key           Resting   Look after Handoff, or half as long again
//	None      Join, wanted by another, tenure over    Resting   Try after the rest of the pause; Queued: Queue
//	None      Join                                    Trying    Try
//	any       Join                                    -         None
//	Trying    Granted, others wait here               Resting   Look after Handoff
//	Trying    Granted                                 None      None
//	Trying    Refused, the store is not sure          Trying    Try, apart from keys that are not pinned
//	Trying    Refused, the store has a queue          Queued    Queue
//	Trying    Refused                                 Resting   Look after the pace
//	Queued    Refused                                 Resting   Look after the pace
//	Trying    Failed                                  Resting   Try after the backoff
//	Trying    Refused, the store has turns            Queued    Queue; Look meanwhile, now and then
//	Trying    Refused, it is this client's turn       Resting   Look after the pace
//	Queued    Turn                                    Trying    Try
//	Queued    Due                                     Queued    Look now
//	Queued    Looked: free, as at the last look       Trying    Try
//	Queued    Looked: free                            Queued    Look soon
//	Queued    Looked: held, no hint stands            Trying    Try
//	Queued    Looked, LookFailed                      Queued    Look now and then; none in a queue that grants
//	Queued    NoPlace, after a refusal                Resting   Look after the pace
//	Queued    NoPlace, to leave the key to another    Resting   Try after the pause
//	other     NoPlace                                 -         None: it is asked for again after a refusal
//	Resting   Due, planned as a try                   Trying    Try
//	Resting   Due, the hint is to be renewed          Trying    Try
//	Resting   Due                                     Resting   Look now
//	Resting   Looked: free                            Trying    Try
//	Resting   Looked: held by this client             Resting   Look after Handoff, then twice as long, to a second
//	Resting   Looked: held by another                 Resting   Look after the pace
//	Resting   LookFailed                              Resting   Look after the backoff
//	Resting   LookFailed, and will again              Trying    Try: its answer says why
//	Resting   Woken by another's release              Trying    Try; a little later: who had the key last, and the less a client has waited; Queued: see Ended
//	Resting   Woken by this client's own release      -         None
//	Resting   Releasing, nobody else wants the key    Resting   Pass; Look after Handoff
//	Resting   Releasing, the tenure is young          Resting   Pass; Look after Handoff
//	any       Releasing                               -         Back
//	Resting   Ended: lost                             Trying    Try
//	Resting   Ended: released, nobody else wants it   Trying    Try
//	Resting   Ended: released, the tenure is young    Trying    Try
//	Resting   Ended: released, wanted by another      Resting   Try after the pause; Queued: Queue
//	None      Ended                                   None      EndTurn
//	any       Left, nobody waits any more             None      Stop
//
// Fairness. Whether another program wants the key is known from its hint, not guessed: a
// release brings it back, a look at a key of one's own asks for it. Nobody else wants it:
// it passes from caller to caller here without end, and a lone caller takes it again at
// once. Somebody does: when the tenure of this client, which is the time since it got the
// key from another, is older than Handoff, the key goes back to the database, and this
// client leaves it alone for a pause in which the other must have looked at it. A hint for
// which nobody came in two pauses does not count any more until it is renewed, or over.
//
// Where the store has turns (driver.Turner) clients that wait are in order, and the one
// whose turn it is keeps it with the key, until the key goes back. A turn that had to be
// waited for, or in which the key had to be, says that others want the key, as a hint does. Those behind it look at the key
// now and then, and leave one that is free to the client whose turn it is, unless that does
// not take it. The tenure is then shorter, the longer the others had the key: so many of
// them wait.
package key
