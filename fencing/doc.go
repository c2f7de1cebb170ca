// Package fencing refuses late writes of a holder that has lost its lock, in places that no guarded transaction reaches:
// another database, a file server, an API.
//
//	err := fencing.Update{ // SQL: a row that carries the token of its last write, in a column fence
//		Table: "invoices", Set: "total = ?", Values: []any{total}, Where: "id = ?", Row: []any{id},
//	}.Run(ctx, db, lease.Token())
//
//	register, err := fencing.OpenRegister("tokens.log") // a server that gets tokens with its requests
//	err = register.Do("invoices", token, func() error { return os.Rename(draft, final) })
//
//	if errors.Is(err, fencing.ErrStale) { … } // a newer holder has written: stop
//
// [Update] is for SQL, [Filter] and [Matched] for a document of MongoDB, [Register] for a server of yours. A program that
// uses Register is examples/fencedfiles of the repository. Inside the database that keeps the locks use the store's InTx or
// Guard: they need no column.
//
// # Why a lock is not enough
//
// A holder can look at its lease, find it good, freeze (a pause of the machine, a slow network) while the lease ends and the
// next holder works, and then finish its write. So the place where the write arrives has to compare fencing tokens. Every
// lease has one (Lease.Token), and a later hold of the key always has a larger one. The place remembers the largest token
// that it has seen, and refuses a smaller one.
//
// # What it does not do
//
// A late write is refused only after the newer holder has written: until then the place does not know of that holder. So
// what the newer holder read before its first write may still change. Let it write first (if only the token), and read then.
//
// Tokens of different keys cannot be compared, nor can those of different lock tables, databases or strategies: use one key
// for each resource, or for a group of resources, and always the same one. A token says that its holder was the newest, not
// that its lease still runs: a holder that lost its lease, and that nobody followed, may still write.
package fencing

import "errors"

// ErrStale: a larger token was seen before, so a newer holder has been there.
// Nothing was written. The holder of this token stops.
var ErrStale = errors.New("rowlock: stale fencing token")
