// Package mysqllock keeps rowlock's locks in MySQL or MariaDB. Its folder is
// mysql; import it by name:
//
//	import mysqllock "github.com/rowlock/rowlock/mysql"
//
// MySQL 8.0 and MariaDB 10.6 are the oldest servers that work; 9.7 and 10.11 are
// tested. All Stores on the same tables exclude each other, whatever programs
// they are in. What is promised, and what is not, is said in package rowlock; here
// it rests on one writable server (or a cluster that behaves like one) whose
// commits are durable: innodb_flush_log_at_trx_commit=1, and sync_binlog=1 where
// there are replicas.
//
// The library's statements run in autocommit on connections of its own, which
// nobody else ever gets; they never join a transaction of the caller. Only an
// exclusive hold of the strategy SelectForUpdate is itself a transaction, of a session of its own.
package mysqllock
