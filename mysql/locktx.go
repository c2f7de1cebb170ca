package mysqllock

import (
	"context"
	"time"
)

// LockTx locks keys for as long as the caller's transaction lives: it waits until
// no other transaction has any of them, and commit, rollback or the end of the
// connection frees them all. There is no lease, no TTL and no token, so nothing can
// be lost before the commit; a client whose host falls silent keeps the keys until
// the server ends its session (wait_timeout, 8 hours by default). These keys have
// nothing to do with those of Acquire.
//
// A key is 1 to 255 bytes, compared byte for byte; one may be named twice, none at
// all is no error. Whoever needs several names them in one call: they are locked in
// one order, whatever order they are given in, so such calls never deadlock with
// each other. A call for more keys later in the transaction can.
//
// Call it before the transaction reads: under REPEATABLE READ a plain SELECT shows
// the rows as they were at the first one, which must therefore come after the lock.
// The transaction must be on the Store's server; its default database may be
// another. It is used by one goroutine at a time. LockTx needs one of the Store's
// own connections for a moment too. It changes no setting.
//
// In an XA transaction the keys are locked until XA PREPARE, and after it until XA COMMIT
// as docs/transactions.md says: not over a crash, and on MySQL only where the branch has
// written something on this server.
//
// Errors:
//
//   - rowlock.ErrInvalid: a key that cannot be used, or tx is no open transaction.
//   - rowlock.ErrSchema: the table is missing; run Migrate.
//   - rowlock.ErrConflict: the server ended the statement because of another
//     transaction: a deadlock (1213), a wait longer than the session's
//     innodb_lock_wait_timeout (1205), a row newer than the transaction's snapshot
//     (1020, MariaDB with innodb_snapshot_isolation). The server's error is in the
//     chain, for errors.As. Roll back and begin again; after 1213 and 1020 the server has
//     undone all of it already, and what is sent on it now takes effect by itself.
//     Or the Store, on a pool of yours that is used up, found no connection for a
//     second: see New.
//   - rowlock.ErrHeld together with the context's error: ctx ended. The transaction
//     is as it was, but may have some of the keys until it ends.
//
// A wait is ended by KILL QUERY from a connection of the Store, so that the
// transaction and its connection live on. Where that is not possible (the
// transaction's user is not the Store's, or a proxy leads elsewhere) LockTx asks
// again every 5 to 40 ms until ctx ends, instead of waiting in the server's queue,
// and may be passed by others. Only where the server is silent for two seconds more
// is the connection closed, and the transaction undone with it.
//
// What is said here rests on one writable server: on Galera and on group
// replication with several writers, a lock of one node does not show on another. After a
// failover of Galera LockTx waits until the node that is the writer now has applied what was committed
// on the one before (wsrep_sync_wait, on a connection of the Store). A transaction that goes on on
// the one before is not waited for: cut its connections when you switch.
func (s *Store) LockTx(ctx context.Context, tx Tx, keys ...string) error {
	return s.lockTx.Lock(ctx, tx, keys)
}

// LockTxNoWait is LockTx that does not wait: a key that another transaction has is
// an error that matches rowlock.ErrHeld, a *rowlock.HeldError that names the first
// such key. The transaction goes on; it may have others of the keys until it ends.
// (On a MariaDB with innodb_rollback_on_timeout the server undoes the transaction;
// the error then matches rowlock.ErrConflict too.) What LockTx waits for besides, a server that
// is behind or answers late, is waited for all the same, until ctx ends.
func (s *Store) LockTxNoWait(ctx context.Context, tx Tx, keys ...string) error {
	return s.lockTx.NoWait(ctx, tx, keys)
}

// LockTxWait is LockTx that waits for at most d, which is at least 1 ms: then the error
// matches rowlock.ErrHeld. The transaction goes on; it may have some of the keys
// until it ends. A key that is free it gets however short d is: what the Store does before on a
// connection of its own may take two seconds longer.
func (s *Store) LockTxWait(ctx context.Context, tx Tx, d time.Duration, keys ...string) error {
	return s.lockTx.Wait(ctx, tx, d, keys)
}
