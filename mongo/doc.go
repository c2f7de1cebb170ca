// Package mongolock keeps rowlock's locks in a MongoDB collection. Its folder is mongo: import it by name. The driver is
// version 2, go.mongodb.org/mongo-driver/v2.
//
//	import mongolock "github.com/rowlock/rowlock/mongo"
//
//	store, err := mongolock.New(client.Database("app").Collection("locks"), mongolock.Options{})
//	if err != nil { … }
//	defer store.Close()
//	if err := store.Migrate(ctx); err != nil { … } // creates the collections that are missing
//	locks, err := rowlock.New(store, rowlock.Options{Logger: slog.Default()})
//	if err != nil { … }
//	defer locks.Close(ctx)
//	err = rowlock.Do(ctx, locks, "report", func(ctx context.Context, lease *rowlock.Lease) error {
//		return store.InTx(ctx, lease, writeReport) // a transaction that does not commit if the lock is lost
//	}, rowlock.Guarded()) // needed for InTx, Once and Guard
//
// [Store.InTx] runs a guarded transaction, [Store.Once] one that takes effect once, [Store.Guard] and [Store.MarkRun] guard
// a transaction of yours, and [Store.LockTx] locks keys for one transaction, without a lease. [Store.Check] and
// [Store.Doctor] say what is wrong with a server.
//
// Most of these have an example: the files *example_test.go. Guides, in docs of the repository: guides/first-lock.md has a whole program,
// transactions.md all about transactions, strategies.md every command, operations.md which roles are needed.
//
// # What it needs
//
// MongoDB 5.1 or newer (tested on 6.0), as a replica set (one node will do) or a sharded cluster (by design, not tested). A
// standalone server has no transactions, no change streams and no retryable writes, so [Store.Check] refuses it unless
// [Options].AllowStandalone says otherwise.
//
// # How a lock is kept
//
// One document per key, which stays after the release, until the reaper finds that the key has been free for a day: {_id: the key's bytes, name: the key as text, hold, owner, token, acquiredAt, expiresAt,
// fenced, keepUntil, forced, …}. An acquire is one findAndModify that changes the document only if the server's own clock
// ($$NOW) says that it is free. A release removes the field hold. The token stays and rises with every grant.
//
// Programs that wait for a key stand in its document, in the array line, and a release gives the key to the first of them
// in the same write. While they wait they look at the document, the first of them most often. A change stream is open only
// while a program observes keys (rowlock.Client.Observe).
//
// Readers (rowlock.Shared) and slots (rowlock.Slots) are entries of an array in the same document: a hold of each is one
// findAndModify too. A key that was never shared has none of that.
//
// Every write asks for the write concern majority, whatever the handle says: with w:1 an acknowledged lock can be rolled
// back in a failover and granted twice. Reads go to the primary.
//
// # Guarded transactions
//
// A lease that was acquired with rowlock.Guarded() can be named in a transaction, which then cannot commit after a newer
// hold of the key was granted. [Store.InTx] and [Store.Once] run the transaction. [Store.Guard] and [Store.MarkRun] join the
// caller's, whose session they find in the context. They write a second document of the key, the fence, which renewals never
// touch. So a guarded lease costs one write more. A guarded reader costs three more: its own fence is made before its hold
// and removed after it.
//
// An open guarded transaction keeps the key from the next holder until it ends. If its process is dead, the next holder ends
// it, provided that InTx or Once ran it and both programs have the same database user. Otherwise the server ends it after
// transactionLifetimeLimitSeconds, 60 by default. Put no TTL index on the collections: fences stay for good.
//
// # Sessions
//
// The Store works in sessions of its own. It never joins a session or transaction of the caller's context: an acquire inside
// Session.WithTransaction would vanish when that transaction aborts. It numbers its writes in these sessions itself, so that
// the server refuses a late attempt after its undo, even if the client has retryWrites off (see internal/command).
package mongolock
