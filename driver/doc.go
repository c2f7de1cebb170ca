// Package driver is what a database must do to keep rowlock's locks. Programs that use locks do not need it: they give a
// store of package mysqllock, mongolock or memory to rowlock.New. It is for you if you write a store for another database:
//
//	type Store struct{ db *sql.DB }
//
//	func (s *Store) Acquire(ctx context.Context, reqs []driver.Request) ([]driver.Result, error) { … }
//	func (s *Store) Renew(ctx context.Context, holds []driver.Hold) ([]driver.Result, error)     { … }
//	func (s *Store) Release(ctx context.Context, holds []driver.Hold) ([]driver.Result, error)   { … }
//	func (s *Store) Inspect(ctx context.Context, keys []string) ([]driver.Info, error)           { … }
//	func (s *Store) Look(ctx context.Context, entries []driver.Entry) ([]driver.View, error)     { … }
//	func (s *Store) Limits() driver.Limits                                                       { … }
//
//	func TestConformance(t *testing.T) { locktest.Run(t, harness(t)) } // what every store must pass
//
// Programs wait for a key in a line, which the Store keeps where the key is ([Liner]: to stand, pass, leave and advance are part of
// Acquire and Release). A Store whose server keeps those who wait, and grants, is a [Queuer] instead. It must be one of the two.
//
// Package rowlock does everything generic above a [Store]: waiting, renewal, loss, queues, undo. A Store does what speaks to
// a server. Package memory is the plainest example; CONTRIBUTING.md and docs/design.md of the repository say what else a new
// database touches.
//
// The rules are instructions to the person who implements a Store. The suite in package locktest has a case for each.
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
//  13. Of a Store with Limits.Queue: a hint ([Hint]) says that a client waits. It is written and read
//     where the key is. It decides nothing: no answer but Wanted depends on it. A refused
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
//  17. Of a Store with Limits.Queue: a gate is what a waiting exclusive request (Wants) leaves in a phase. No Shared or Slot
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
// Of a Store with Limits.Line:
//
//  19. A line is at most MaxLine entries in the key's row or document, in the order in which they came. An entry has the
//     hold ID of a request with Stand, its mode and number of slots, whether it is Guarded, its Claim, since when it stands and when it
//     ends. It is alive until then, by the database's clock; one that ends later than twice MaxEntryTime from now is dead. Dead
//     entries count for nobody, and a write of the line leaves them out. A line that cannot be read is empty, and the next write mends it.
//
//  20. Every Acquire, whatever it asks for, and every Release passes the key on first, in the same step: while nothing keeps the key
//     from the first entry, that request becomes a hold as if it were granted now, with a token of its own, for its Claim
//     instead of its TTL, without Keep and Owner, and its entry is gone. Readers and slots at the head of the line are passed the key together,
//     up to the first exclusive entry. Nothing is passed by the Release of a hold that is Guarded, while MinHold keeps the key, where a
//     transaction pins it, or by ForceRelease. (A Store may pass a phase without the holds of it, if View.Free tells
//     each reader and slot that it can join: its acquire then makes the hold. One that does not come within its claim is dead, from the
//     first Acquire on that it keeps waiting.)
//
//  21. A request is granted where the key is free for it and nobody stands before it who would have to wait for it: for an
//     exclusive request anybody, for a reader an exclusive entry, for a slot an exclusive entry, or a slot that it would
//     take a place from. Before a request that does not stand are all entries. It makes no difference whether it has Stand. One that
//     has its entry's ID and is granted loses the entry. One that is refused and has Stand is added at the end, unless it stands or holds, in which
//     case only the end of its entry moves, never earlier. One that was passed the key before finds its own hold
//     (rule 4), if that is not over: the answer says how much of it is left (Result.Left), which is less than its TTL.
//
//  22. Release of an ID that stands takes its entry out of the line: Released. Of a request that was passed the key it is the
//     release of that hold. Hold.Next is added to the line after the hold has ended and before the key is passed.
//
//  23. A key for which nobody waits costs what it costs without a line: statements, commits and bytes. ForceRelease leaves the line as it
//     is; Reap leaves rows with a live entry; Inspect and List count live entries.
//
// # Beside the store
//
// What else must know of a new kind of database: migrations (its schema), dev/testenv/kind.go and
// internal/testserver (servers for tests), cmd/rowlock/rowlockcli (store.go, address.go, migrate.go, exit.go, connect.go), doctor
// (a table of findings), dev/verify/workload/backend.go (rounds with faults), dev/bench/internal/lab.
// What stores do alike is in internal/order, guards, patience and latency; package memory is the plainest example.
package driver
