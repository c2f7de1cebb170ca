// Package session is the strategy SelectForUpdate (pessimistic): an exclusive hold is the lock that
// one database session has on the key's row in rowlock_session_row. The server
// drops it when the session ends, so a process that dies frees its keys at once.
//
// Beside the row there is the lease row in rowlock_session, as in the other
// strategies: it gives the token, tells who holds, keeps MinHold, and is what a
// guarded transaction locks. It does not decide who holds the key; the row lock does.
//
// # An acquire
//
//	(1+2) session     lock the row, at once or not at all, or in the server's queue,
//	                  and read the lease row's token t0
//	(3)   other conn  write the hold into the lease row where the token is still t0
//	(4)   session     read it back
//
// Granted only after (4): whoever has the row lock before (3) and still after it
// is the only one that can have written. A (3) that arrives late, when its session
// is dead, changes nothing, because the token is t0 no longer; or it writes, and (4)
// fails, and nothing is granted. (3) is a commit of its own, because the session must not write:
// its transaction stays open as long as the hold. It waits for an open guarded
// transaction of the old holder, so it is bounded like any takeover; and where keys
// were just found blocked a read that does not wait comes before it: see lookFirst.
//
// # Readers and slots
//
// They have no session. Each is a row of a share table, in a phase that stands in the lease row;
// package share has the statements. A phase begins where no session has the row locked (begin.go),
// and ends when an exclusive attempt takes the key, with the row lock and its gate
// (throughphase.go).
//
// # While it is held
//
// The server ends a session that is silent for wait_timeout, here the TTL in whole
// seconds, rounded up: https://dev.mysql.com/doc/refman/9.7/en/server-system-variables.html#sysvar_wait_timeout
// So each session gets a heartbeat (the engine calls Renew every min(TTL/10, 1s)),
// and the lease rows are renewed, all in one statement, when the last time was a
// third of the TTL ago. A hold is trusted until wait_timeout or the lease row's expiry,
// whichever is first.
//
// # After a failover or a restart
//
// The row lock is one server's, in one run of it; see serverrun.go.
//
// # The exception to P2 (docs/guarantees.md: a loss is known before the next grant)
//
// A session can end before its time: KILL, a restart of the server, a firewall, a
// proxy. The key is free at that moment, and the holder learns of it at its next
// heartbeat. Until then two believe that they hold the key. Guarded transactions
// are not deceived: the next grant raises the token.
//
// # The end
//
// A release is ROLLBACK on the session; the lease row keeps what it has, with
// kept_until for MinHold, written at the grant so that a crash keeps it too. The
// session then serves the next acquire. A session of which we do not know what it
// does is closed, and KILLed where that is allowed; where not, wait_timeout ends it.
package session
