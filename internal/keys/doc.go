// Package keys has everything that a client knows about keys: those that its callers wait for, and those that it has. A caller is an [Ask]
// here, and is answered with a grant or a refusal. Leases, options and the errors that users see are made by package rowlock. That
// imports this package; this package does not import it.
//
// # The protocol on one page
//
// A program that wants a key which another program has stands in a line. The line is in the database, in the key's row, beside the hold:
//
//	             holder                            line
//	             ┌────────────────────────────────┬─────────────────────────┬─────────────────────────┐
//	12:00:00.5   │ p1: hold a, until 12:00:30     │ p2: entry b, until 0:06 │ p3: entry c, until 0:05 │
//	             └────────────────────────────────┴────────────┬────────────┴────────────┬────────────┘
//	p1 releases at 12:00:01   ┌────────────────────────────────┘            ┌────────────┘
//	             ┌────────────▼───────────────────┬─────────────────────────▼┐
//	             │ p2: hold b, until 12:00:02     │ p3: entry c, until 0:05  │   both in one commit
//	             └────────────────────────────────┴──────────────────────────┘
//	p2 looks at 12:00:01.004: the hold is its own and lasts another 0.996 s. Its caller has the key now. p2 counts the 0.996 s from the moment
//	at which it sent the look, stops a margin before their end, and renews the hold at once, for the whole TTL.
//
// A program is one client. It has one entry at most in the line of a key (one for each mode: exclusive, readers, slots), however many of its callers wait.
// The ID of an entry is that of one attempt and never used again; when the entry is served it is the ID of the hold. All times are written and compared by the
// clock of the database.
//
// Each step is one statement, and each that writes is one commit:
//
//	take      Acquire. Nobody has the key and nobody alive stands: the program has it for the TTL.
//	stand     The same Acquire, where that is not so: it adds an entry at the end of the line.
//	pass      Release. It ends the hold, and makes the first live entry the holder, for a short time: the claim. That is a second, or more
//	          where the database is slow or the entry looks rarely: at least 2.5 times the pause between its looks. If more callers of the
//	          releasing program wait, the same commit adds an entry for them at the end.
//	look      A read: who has the key, and who stands where. It is what a waiting program sends most: the first of the line every few
//	          milliseconds, the others less often the further behind they are, but at least once a second.
//	advance   Acquire again, when a look has said that the hold is over. It makes the first live entry the holder: another program's for
//	          its claim, the program's own for the whole TTL. The statement itself checks that the hold is over, so an old look does no harm.
//	refresh   The same Acquire, where the hold is not over: it moves the end of the program's own entry. An entry lasts 6 s, and for one that waits for
//	          long 12, 24, 48, at last 60 s. It is refreshed when two fifths of that have passed.
//	renew     Renew. It moves the end of the hold that it names, also of one that is over if nobody has taken the key since.
//	leave     Release with the ID of an entry, when nobody here waits any more: it takes the entry out of the line. If the entry is the holder by now,
//	          it releases the key, and so passes it on. A release of the program's own hold waits for the answer: it could pass the key to the entry.
//
// Why no two programs have the same key at once: there is one row. Pass, renew and leave name the ID of a hold or an entry: if one comes late, or twice, it
// finds another ID and ends nothing. Take and advance check that no hold is left that excludes the new one. And a
// program stops in time. It counts from when it sent the statement whose answer says how long the hold lasts, not from the answer. Its clock also runs
// while the machine is suspended. It stops a tenth of that time early, because clocks run at different speeds. Only an answered renewal gives it more.
//
// There are three exceptions, which docs/guarantees.md has. The clock of the database is set forward: holds are over for others before their
// holders stop. A failover loses commits. And a program stands still between its last check and its write. Guarded transactions and tokens, of package
// rowlock, are for these.
//
// Why the order is kept: it is the order of the commits by which the programs stood. A program that does not stand gets a key only if nobody alive
// stands. A pass and an advance serve the first live entry. The program that has the key may pass it among the callers that it had when its turn
// began, for at most Options.Handoff; its later callers get an entry at the end.
//
// What happens when a program dies:
//
//   - The holder. Its hold is over when its TTL is. The first of the line sees that by a look, and advances: it has the key.
//   - The first of the line. If its entry has ended when the key becomes free, it is skipped, and nothing is lost. If not, it is made the holder, because
//     nobody can know that it is dead. It does not renew, so the hold is over after its claim. The program behind it, which is the first now, sees that and
//     advances. So the key was unused for one claim.
//   - Several, one behind the other, whose entries have not ended: one claim for each. The live program behind them advances for each of them.
//   - A program further behind. Nobody refreshes its entry. When that has ended it is never made the holder, and the next stand, pass or advance
//     drops it. If its turn comes before, it is like the first of the line.
//
// A program that was only frozen, and wakes: its look tells it whether it has the key, and for how long, counted from the sending. If its claim is over
// and another program has the key, it has lost its turn, and stands again at the end.
//
// An acquire without an answer may have made an entry or not. The program looks. If there is an entry that no caller here wants, it sends a leave for it, and
// repeats that until it has an answer. An entry that is overlooked even so ends by itself.
//
// Readers and slots (at most n holders at a time) stand in the same line. All entries before the first exclusive one get the key together, as far as there are
// slots, each with a hold of its own. A reader that comes while an exclusive entry stands, stands behind it; while none does it joins the readers that are there. The
// exclusive one gets the key when the last of these holds is over, so a reader that has died costs it the rest of that reader's TTL.
//
// Some stores have something that wakes the first of the line sooner (driver.Turner: named locks on MySQL). Nothing depends on it.
//
// With SelectForUpdate there is no line ([driver.Queuer]): programs wait for a lock inside the database server, and the server decides the order.
//
// # The parts
//
// The state machine of a key is in package key (internal/key): pure functions, and a table of all transitions. This package passes events to it and
// carries out the actions that it returns:
//
//	table.go                     Table: all keys of a client, under one mutex
//	ask.go refusal.go            what a caller asks for, and why it cannot have that
//	keys.go keyevents.go         what is known of one key in one mode
//	wait.go attempt.go retry.go  a caller that waits; its attempt, and the answer; attempts of TryAcquire that are sent again
//	inline.go turn.go            a key whose store has lines: stand, look, advance; the named lock that wakes the first of a line
//	prober.go round.go           when keys are looked at, within a budget for all of them; attempts that are sent in one batch
//	handoff.go modes.go          a grant goes on to the next caller here; readers and slots
//	ownhold.go namesholder.go    holds of this client that its own callers wait for; who has a key, for those who do not wait
//	serverqueue.go gate.go       SelectForUpdate: the server's queue; how a writer that waits keeps new readers out (a gate)
//	pinned.go                    keys that an open transaction keeps from everybody
//	observe_keys.go observe_term.go watcher.go   keys that Observe follows
package keys
