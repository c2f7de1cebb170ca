// Package driver is the seam between the rowlock engine and a database. A
// backend implements [Store]; everything generic (waiting, renewal, loss,
// queues, undo) lives above it, in package rowlock, and everything that speaks
// to a server lives below it.
//
// It is written as instructions to the person who implements it. The suite in
// package locktest pins every rule; a Store that passes it is a good Store.
//
// # The rules
//
//  1. Expiry is judged by the database's clock, never by the client's. Two
//     clients whose clocks differ by an hour must agree on who holds a key.
//
//  2. Keys are bytes. "a", "A", "a " and "a\x00" are four keys; 1 to 255 bytes
//     (the engine has checked the length).
//
//  3. Every step names its hold by hold ID. So a repeated step, or one that
//     arrives late, finds its own hold or nothing, and is harmless.
//
//  4. A hold ID belongs to one attempt. An acquire that finds its own live hold
//     answers Granted with the stored token and changes nothing. Once an undo or
//     release of an ID was sent, the ID is dead: it is never sent in an acquire
//     again. The engine makes a new ID for each attempt; inside a call a Store
//     may send the same ID again only where the server proved that nothing was
//     applied (a deadlock, a lock-wait time-out, a killed statement) or where the
//     protocol itself makes the repeat harmless (a retryable write).
//
//  5. A renewal never shortens: the new expiry is the larger of the old and the
//     new one, because a renewal that was delayed in the network must not cut a
//     lease that was renewed since. It changes nothing for a hold that was
//     released, forced or taken, so nothing can be revived.
//
//  6. Tokens are strictly increasing per key in the order of grants and outlive
//     release, expiry, force, reaping and restart of the server. The next grant
//     of a key starts at least [TokenRange] higher, so that the engine can number
//     local holders in between. A token made when a statement *starts* is not
//     good enough if the statement can wait.
//
//  7. A step waits for another transaction at most [Limits].LockWait, then
//     answers Pinned (acquire) or Unknown (others). One blocked key of a batch
//     must not keep the others from their answers, and never makes another
//     process lose a lease. Where it would take long to find out which of many
//     keys are pinned, all of them are Pinned with Apart, and are asked for again in a call
//     without keys that are not.
//
//  8. An answer is given only for what the server acknowledged durably. No reply,
//     or one that does not say, is Unknown: neither success nor refusal. A row
//     that shows neither my hold nor a live other one is Unknown too.
//
//  9. A call returns when its context ends, whatever the server does. If a
//     statement was under way then, its connection is closed, not reused. Nothing
//     is cancelled for other reasons: the engine's contexts carry deadlines of the
//     trust window, not the caller's patience.
//
//  10. Renew, Release and the undo never wait for a connection that an Acquire
//     occupies.
//
//  11. A Store keeps out of the caller's transactions and sessions: a context
//     that carries one does not pull a step into it.
//
//  12. A connection can be dead without anybody knowing: a firewall forgot it, and
//     swallows what is sent over it. So an attempt that has got no byte for a second,
//     or for a quarter of the time that it had until its context's deadline if that
//     is less, makes the Store ask on a newly dialled connection. If that one answers,
//     the silent one is dead: close it (and end its session on the server, where that
//     can be done), distrust other idle connections that are as old, and answer with
//     an [Error] that says Silent, at once. If it does not answer either, the server
//     is slow or silent itself: wait on, and ask again after 5 s, twice as long after
//     each connection given up, until the context ends. An attempt is Silent only
//     after such a question, never because time has passed; NotApplied beside it only
//     where nothing can have been sent. The engine sends at once what was Silent: an
//     acquire under a new ID, while it undoes the old one, a renewal, release or undo
//     as it was. A Store itself sends an acquire again only as rule 4 allows.
//
//  13. A hint ([Hint]) is written and read where the key is, in the statement that is
//     sent anyway. It decides nothing: no answer but Wanted depends on it. A refused
//     attempt with Wants leaves it, a grant clears the grantee's own, a release leaves
//     it where it is (a Store that removes released rows keeps one with a hint that
//     is not over), and nothing else touches it. One exception: a client that was granted
//     the key by a queue of the server, after a wait, cannot see which clients wait behind
//     it; a Store may then leave the hint of client 1 ([QueueClient]), which is no client's number. A hint that is lost, late or left by a
//     client that died costs a little time and nothing else.
//
//  14. A Store logs nothing and does not retry for long: errors come back raw,
//     classified once by [Error].
//
// Of a Store that has the modes Shared and Slot (Limits.Modes):
//
//  15. Each Shared or Slot hold is one of its own, with its ID, TTL, renewal, release and undo;
//     every rule above holds for each. It ends only by a write to it: a release, or that of an
//     exclusive request that found it expired, after which a late renewal finds nothing. An
//     exclusive request is granted when no hold is left that was not ended so, never because
//     those that are left have expired. A request of slots gets a slot below its own number
//     that no live hold has, the Request's Slot if that is free; calls that differ on the
//     number of slots each get one below their own. Keep is for Exclusive and Slot.
//
//  16. A phase begins when the key is free, with a token above every earlier one of the key, the
//     slots' among them; the beginning waits for guarded transactions of the exclusive hold
//     before as every takeover does. Readers have the token of the phase: a guard of a reader
//     names it. A slot's token (Result.Token) is above the phase's and above that of the
//     last hold of that slot; a guard of a slot names both. The next exclusive token is above
//     all of them, and its grant waits for the guarded transactions of the phase. Guards of
//     holds that may be beside each other do not wait for each other, nor for joins, renewals
//     and gates.
//
//  17. A gate is what a waiting exclusive request (Wants) leaves in a phase: no Shared or Slot
//     hold is granted while it stands. It names the request, and ends after GateTime. One gate
//     stands at a time: a request takes over the one that Request.Gate names, or leaves its
//     own where none stands and GateAfter is over. The exclusive grant demands its own gate,
//     so a look that says that nobody holds the key cannot be too old. A gate that is over is
//     cleared by a write, never ignored. A grant ends it; a Release with Undo ends the gate of
//     its ID, and so does a refused request without Wants that had to leave one for a moment.
//
//  18. A key that was never asked for in these modes costs what it costs without them:
//     statements, commits and bytes. ForceRelease ends all holds of a key, and its gate; Reap,
//     List and Inspect know all of them.
//
// Of a Store that has Tickets:
//
//  19. A Fair request is granted only where no live ticket of another stands before its own,
//     as a look says that begins after the request came: others have another ID, and stand
//     before it with a smaller Seq, or the same and a smaller ID. The look
//     may be a statement of its own, so a ticket that comes meanwhile may be passed; none that
//     was there is. One of a client that is the first for certain comes without Fair: nobody stood
//     before its live ticket less than TicketTime ago. A refused request writes nothing for that. Requests that are not Fair, and
//     calls without Fair ones, cost nothing more and ask for no tickets. ForceRelease leaves
//     tickets where they are; Reap removes those that have been over for longer than its grace.
//
// # Beside the store
//
// What else must know of a new kind of database: migrations (its schema), testenv/kind.go and
// internal/testserver (servers for tests), cmd/rowlock/rowlockcli (store.go, address.go), doctor
// (a table of findings), verify/workload/backend.go (rounds with faults), bench/internal/lab.
// Stores do alike what internal/storekit has; package memory is the plainest example.
package driver
