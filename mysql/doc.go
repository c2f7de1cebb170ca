// Package mysqllock keeps rowlock's locks in MySQL or MariaDB. Its folder is mysql: import it by name.
//
//	import mysqllock "github.com/rowlock/rowlock/mysql" // brings the driver go-sql-driver/mysql
//
//	store, err := mysqllock.Open("app:secret@tcp(db:3306)/app", mysqllock.Options{})
//	if err != nil { … }
//	defer store.Close()
//	if err := store.Migrate(ctx); err != nil { … } // creates the tables that are missing
//	locks, err := rowlock.New(store, rowlock.Options{Logger: slog.Default()})
//	if err != nil { … }
//	defer locks.Close(ctx)
//	err = rowlock.Do(ctx, locks, "report", func(ctx context.Context, lease *rowlock.Lease) error {
//		return store.InTx(ctx, lease, func(ctx context.Context, tx *sql.Tx) error { // does not commit if the lock is lost
//			return writeReport(ctx, tx)
//		})
//	})
//
// [Open] makes a small pool of its own, [New] takes a pool of the program's, and [OpenPrimary] finds the primary of several
// servers. [Store.InTx] runs a guarded transaction, [Store.Once] one that takes effect once, [Store.Guard] and
// [Store.MarkRun] guard a transaction of yours (sqlx, gorm, sqlc), and [Store.LockTx] locks rows for one transaction,
// without a lease. [Store.Check] and [Store.Doctor] say what is wrong with a server.
//
// Most of these have an example: the files *example_test.go. Guides, in docs of the repository: guides/first-lock.md, guides/guards.md,
// guides/batch.md; guides/choosing.md says which [Strategy] to take, transactions.md all about transactions, strategies.md
// every statement, operations.md which privileges are needed and which proxies and managed services work.
//
// # What it needs
//
// MySQL 8.0 or MariaDB 10.6 or newer; 9.7 and 10.11 are tested. One writable server, or a cluster that behaves like one,
// with durable commits: innodb_flush_log_at_trx_commit=1, and sync_binlog=1 where there are replicas.
//
// # Model
//
// Package rowlock says what is promised, and what is not. All Stores on the same tables exclude each other, whatever
// programs they are in.
//
// Programs that wait for a key of VersionColumn or UniqueInsert stand in a line in its row, and a release gives the key to
// the first of them in the same commit. A lock of the server by name (GET_LOCK) wakes it: see [Options].WakeupConns. With
// SelectForUpdate they wait in the server, for the lock of the row.
//
// The library's statements run in autocommit on connections of its own, which nothing else uses. They never join a
// transaction of the caller. One exception: an exclusive hold of the strategy SelectForUpdate is a transaction itself, in a
// session of its own.
package mysqllock
