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
func NewUnique(d *conn.DB, table string) *Table {
	return &Table{DB: d, Name: table, GuardColumns: []string{"token", "name", "hold"}, Fenced: true, Deletes: true, Lined: true}
}
