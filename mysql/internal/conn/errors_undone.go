package conn

import "errors"

// The first of two questions about an error: was anything done? The other, whether it lasts, is in errors_lasting.go.
// An error that passes may prove that nothing was done (1205), and so does nearly every one that lasts.

// RefusedNow are the errors by which the server says that it cannot do this now, whatever it is. They prove that
// nothing was done even where they are the answer to a COMMIT (but for a KILL QUERY, ErKilled).
var RefusedNow = map[uint16]bool{
	ErLockWait: true, ErDeadlock: true, ErSnapshot: true, ErGroupRollback: true, erHook: true, ErKilled: true, erPacket: true, ErIdle: true,
	1047: true,                         // Galera: the node is not ready
	1290: true, 1792: true, 1836: true, // read-only
	1969: true, 3024: true, // max_statement_time, max_execution_time
	1040: true, 1203: true, 1226: true, // too many connections: never got in
	1099: true, 1100: true, 1137: true, // see ofSession
}

// doubtful are the answers that leave open whether the statement took effect: those that come while a commit is under
// way or a connection ends, and those that proxies use for whatever they meet behind them.
var doubtful = map[uint16]bool{
	1026: true, 1598: true, // the binary log cannot be written
	1053: true, 1927: true, 3169: true, // shutdown, KILL CONNECTION; MaxScale: the server behind it is lost
	1105: true, 1815: true, // unknown and internal errors: Vitess, Spider
	1152: true, 1158: true, 1159: true, 1160: true, 1161: true, 1184: true, 1189: true, 1190: true, // the network
	1180: true, 1181: true, 1196: true, 1964: true, 4173: true, // during COMMIT or ROLLBACK, or after a part was committed
	1429: true, 1430: true, // a table that another server keeps
}

// undone reports whether err is an answer by which a server says that a statement, which commits by itself, has changed
// nothing: every error is, but the doubtful ones. Numbers that no server has are those of clients and proxies (2013,
// 9001), which say nothing of the server. An error of one statement of several says nothing of those before it: see
// MaybeApplied.
func undone(err error) bool {
	n := Number(err)
	server := 1000 <= n && n < 2000 || 3000 <= n && n < 5000 || 6000 <= n && n < 7000
	return server && !doubtful[n] || errors.Is(err, ErrBlocked)
}
