// Package rowlock gives Go programs distributed locks in the database that they already have: MySQL or MariaDB (package
// mysqllock, in folder mysql) or MongoDB (package mongolock, in folder mongo).
//
//	store, err := mysqllock.Open("app:secret@tcp(db:3306)/app", mysqllock.Options{})
//	if err != nil { … }
//	defer store.Close()
//	if err := store.Migrate(ctx); err != nil { … } // creates the tables that are missing
//	locks, err := rowlock.New(store, rowlock.Options{Logger: slog.Default()}) // one Client in a program
//	if err != nil { … }
//	defer locks.Close(ctx)
//	err = rowlock.Do(ctx, locks, "report", func(ctx context.Context, lease *rowlock.Lease) error {
//		return makeReport(ctx) // no other program makes the report now; ctx is cancelled if the lock is lost
//	})
//
// # Where to start
//
//   - [Do] runs a function under a lock. [Client.Acquire] and [Client.TryAcquire] are for code that a function does not fit.
//   - [Every] runs a function once a period over all programs: a cron job without a scheduler.
//   - [Lead] runs a function in one program at a time, for as long as that lives. [Client.Observe] tells who leads.
//     Do, Every and Lead are functions, not methods, because they work with every [Locker].
//   - [Client.AcquireAll] takes several keys, all or none.
//   - [Client.Inspect] and [Client.List] show who holds what, [Client.ForceRelease] frees a key. [Client.Close] ends it all.
//
// Transactions that do not commit once the lock is lost are methods of the stores: InTx, Once and Guard of mysqllock and
// mongolock. A store for tests, which needs no database, is package memory.
//
// Each of these functions and methods has an example: the files *example_test.go. The repository has whole programs in examples: hello runs without a
// database. It has a guide for each task in docs/guides: begin with first-lock.md, then take cron.md, web-requests.md, batch.md
// or guards.md. docs/words.md explains each word. Who wants to change the library begins with "Where is what" in docs/design.md.
//
// # Which option
//
// Most calls need none. Options of a call stand behind its other arguments: Do(ctx, locks, key, fn, rowlock.NoWait()).
//
//   - Not wait when another has the key: [NoWait], or TryAcquire.
//   - Run at most once in a period: [MinHold], a bit less than the period; or Every.
//   - End work that hangs: [MaxHold]. The TTL does not do that: it is renewed for as long as the lease is held.
//   - Let another program go on sooner after a crash: a shorter [TTL].
//   - Go on only while the work makes progress: [NoRenew], and [Lease.Renew] at each step.
//   - Many readers, one writer: [Shared]. At most n at a time: [Slots].
//   - One caller of a program at a time, then the next program: [Fair].
//   - Functions that call each other and lock the same key: [Reentrant].
//   - Tell people who has the key, for example by a request's ID: [Owner].
//   - Guarded transactions on MongoDB: [Guarded].
//
// # Model
//
// A lease is one hold of one key by one caller. The database grants it for a time, the TTL, by its own clock: the row or
// document of the key is the lock, and nothing else decides who has it. The client renews the lease at a third of the TTL
// (with SelectForUpdate at a tenth, at least once a second).
//
// The client trusts a lease until its trust deadline. It counts from the moment at which it sent the attempt that got the
// lease, or the last renewal that was answered: plus the TTL, less a margin, on its own monotonic clock. After that [Lease.Err]
// returns an error each time it is asked, even if the network or the server has failed. The database cannot give the key to
// another caller earlier. Work that must stop then uses [Lease.Context], or asks Err before each step.
//
// Each lease has a token, [Lease.Token]. The next hold of the key has a larger one. A resource that remembers the largest
// token it has seen can refuse a holder that froze and came back: see package fencing.
//
// # Waiting
//
// Programs that wait for a key get it in the order in which they asked. They stand in a line in the key's row or document,
// and a release gives the key to the first of them in the same commit. A program that gets the key serves those of its callers
// that waited, for up to Options.Handoff, before it passes the key on; with [Fair] it serves one. TryAcquire overtakes
// nobody. A program that dies in the line delays the others by about a second. The strategy SelectForUpdate of mysqllock has no
// line: there the server keeps those who wait, in an order of its own.
//
// # What happens when things fail
//
//   - No answer comes: the attempt has neither succeeded nor failed. The client takes it back in the background, until it
//     cannot take effect any more.
//   - A renewal fails: the client tries again for as long as it trusts the lease.
//   - A program dies: its holds end with their TTL.
//   - The context of a Release was cancelled: the release is sent all the same.
//
// # What is not promised
//
// A program can freeze at any moment (garbage collection, a paused virtual machine) and go on after its lease has ended:
// between a look at Err and the write that follows it. Only two things close that gap: a guarded transaction in the lock's
// own database, or a resource that checks the token.
//
// Two strategies, tables or databases are two lock spaces: a key of one does not exclude the same key of the other. If the
// database's clock steps forward by more than the margin, leases end early and their holders do not know. The holder learns
// of an operator's ForceRelease at its next renewal.
//
// # For authors of stores and observers
//
// Most programs need none of these. They are in this package because they are about a [Lease] or a [Client].
//
//   - Authors of stores call [BeginGuard]; all else that they need is in package driver.
//   - Observers, for metrics and tracing: an [Observer] is told of [AcquireStart], [AcquireEnd], [LeaseEnd], [Renewed],
//     [Called] and [Reaped]. [Ops], [Reasons] and [UpTo] list or limit the names in them. Packages promrowlock and
//     otelrowlock are ready to use.
//   - Pages and tools show what a client does now with [Client.Stats], [Client.Leases] ([Held]) and [Client.Waits] ([Wait]).
package rowlock
