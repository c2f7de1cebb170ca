// Package conn is the way of a Store to its server: pools of connections, statements,
// and what is learned of the server while they are sent.
//
// A DB has the Store's pools. A Pool has connections for one kind of work, each brought
// to settings of the Store's own. A Conn sends one statement at a time, as text (Exec,
// Query) or prepared (ExecOne, QueryOne), and ends it by KILL where it is unanswered for
// longer than its bound: ErrBlocked. Step runs a statement again where the first
// connection turned out to be dead, or to lead to a server that is not the primary.
// Errors come back raw; Classify says once what they mean to the engine.
//
// How many connections a Store has for each kind of work is decided at the foot of
// options.go of package mysqllock, and checked in its newStore; how one pool gives them out
// is in pool.go, how it opens and keeps them in pool_open.go and pool_idle.go.
//
// It knows nothing of locks but the prefix of their tables, by which it tells the Store's
// statements from others before it ends one.
package conn
