// Package mongolock keeps rowlock's locks in a MongoDB collection.
//
//	store, err := mongolock.New(client.Database("app").Collection("locks"), mongolock.Options{})
//	if err != nil { … }
//	if err := store.Migrate(ctx); err != nil { … } // once, for example at deployment
//	locks, err := rowlock.New(store, rowlock.Options{})
//
// # What it needs
//
// MongoDB 5.1 or newer (tested on 6.0), a replica set (one node will do) or a
// sharded cluster (by design, not tested). On a standalone server there are no
// transactions, no change streams and no retryable writes, so [Store.Check]
// refuses it unless [Options].AllowStandalone says otherwise.
//
// # How a lock is kept
//
// One document a key, for ever: {_id: the key's bytes, name: the key as text,
// hold, owner, token, acquiredAt, expiresAt, fenced, keepUntil, forced, wanted}. An
// acquire is one findAndModify that changes the document only if the server's own clock
// ($$NOW) says that it is free. A release removes the field hold; the token stays
// and rises with every grant. A waiter that is refused leaves the number of its client in
// wanted, as a hint on which nothing depends.
//
// Readers (rowlock.Shared) and slots (rowlock.Slots) are entries of the same document, in an
// array: a hold of each is one findAndModify too. A key that was never shared has none of that.
//
// Every write asks for the write concern majority whatever the handle says: with
// w:1 an acknowledged lock can be rolled back in a failover and granted twice.
// Reads go to the primary.
//
// # Guarded transactions
//
// A lease acquired with rowlock.Guarded() can be named in a transaction, which then
// cannot commit after a newer hold of the key was granted: [Store.InTx] and
// [Store.Once] run one, [Store.Guard] and [Store.MarkRun] join the caller's, whose
// session they find in the context. They write a second document of the key, the
// fence, that renewals never touch; a guarded lease costs one write more for it. A
// guarded reader has a fence of its own, made before its hold and removed after it: three more.
// An open guarded transaction keeps the key from the next holder until it ends. One
// of a dead process is ended by the next holder if InTx or Once ran it (and both
// programs have the same database user), otherwise by the server after
// transactionLifetimeLimitSeconds, 60 by default. Put no TTL index on the
// collections: fences stay for good.
//
// # Sessions
//
// The Store works in sessions of its own. A session or transaction in the
// caller's context is never joined: an acquire inside Session.WithTransaction
// would vanish when that transaction aborts. It numbers its writes in these
// sessions itself, so that the server refuses a late attempt after its undo,
// also when the client has retryWrites off (see internal/command).
package mongolock
