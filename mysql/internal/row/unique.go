package row

import "github.com/rowlock/rowlock/mysql/internal/conn"

// NewUnique is the strategy UniqueInsert: a row is a held lock, the primary key
// makes it unique, release deletes it. The same upsert as VersionColumn's creates
// the row or takes an expired one over: a plain INSERT, or a DELETE of the expired
// row before it, deadlocks.
//
// With the row goes the last token, so the fencing token is the time: read by a
// statement after the grant, hence later than every token of an earlier hold. The
// row's own token was made when the upsert started, before it may have waited, and
// two holds can have the same one; so the guard index has the hold too.
//
// The readers of a phase have one token, which is the row's, so that of a phase is made by
// a statement after the one that began it: see confirm.
func NewUnique(d *conn.DB, table, share string) *Table {
	return &Table{db: d, Name: table, Share: share, GuardColumns: []string{"token", "name", "hold"}, fenced: true, deletes: true}
}
