// Package testenv gives tests, the demo and the benchmarks real database servers, from a bare machine.
//
// A [Server] is a MySQL, MariaDB or MongoDB of the caller's own: it can be frozen, killed, started again on the same
// data and port, and it leaves nothing behind. Servers listen on 127.0.0.1 only and keep the durability of a real
// installation (innodb_flush_log_at_trx_commit=1, sync_binlog=1, MongoDB's journal), so that what a fault test proves
// and what a benchmark measures holds elsewhere.
//
// # Where servers come from
//
// In this order; ROWLOCK_TEST_MODE forces one of them by its name:
//
//   - env: ROWLOCK_TEST_MYSQL_DSN, ROWLOCK_TEST_MARIADB_DSN, ROWLOCK_TEST_MONGO_URI name running servers. Only [Find]
//     uses them: a server that others use is never frozen or killed.
//   - local: server programs in the cache or on PATH, run as child processes (Linux).
//   - docker: a container engine, through testcontainers-go.
//   - packages: on Debian, packages fetched into the cache without root and without installing anything; from then
//     on it is "local".
//
// Servers on a slower disk: see [SlowSync].
//
// The cache is ROWLOCK_TEST_CACHE, or rowlock-testenv in the user's cache folder. Many processes may fill it at once.
package testenv
