// Package fencing refuses late writes of a holder that has lost its lock, in places
// that no guarded transaction reaches: another database, a file server, an API.
//
// A lock alone cannot do that. A holder can look at its lease, find it good, stand
// still (a pause of the machine, a slow network) while the lease ends and the next
// holder works, and then finish its write. What helps is that the place where the
// write arrives compares fencing tokens: every lease has one (Lease.Token), a later
// hold of the key always has a larger one, so the place remembers the largest that
// it has seen and refuses a smaller one.
//
// Three ways to do it:
//
//   - Update, a SQL UPDATE of a row that carries the token of its last write;
//   - Filter, the same for a document of MongoDB;
//   - Register, for a server that receives tokens with its requests.
//
// # What it does not do
//
// A late write is refused only after the newer holder has written: until then the
// place does not know of it. So what the newer holder read before its first write
// may still change. Let it write first (if only the token), and read then.
//
// Tokens of different keys cannot be compared: one key for each resource, or for a
// group of resources, and always the same one. Tokens of different lock tables,
// databases or strategies cannot be compared either. A token says that its holder
// was the newest, not that its lease still runs: a holder that lost its lease and
// was followed by nobody may still write.
//
// Inside the database that keeps the locks use Guard: it needs no column.
package fencing

import "errors"

// ErrStale: a larger token was seen before, so a newer holder has been there.
// Nothing was written. The holder of this token stops.
var ErrStale = errors.New("rowlock: stale fencing token")
