package row

import "github.com/rowlock/rowlock/mysql/internal/conn"

// NewVersion is the strategy VersionColumn (optimistic): a key's row stays for
// ever, its token is the version. One statement creates it, takes it over or
// refuses, and a row lock makes the server decide in order; nothing is deleted, so
// there is nothing to deadlock on.
//
// The token is made when the statement starts, which may be before it waited for
// the row. That is good enough here: GREATEST makes it follow the stored one.
func NewVersion(d *conn.DB, table string) *Table {
	return &Table{DB: d, Name: table, GuardColumns: []string{"token", "name"}, Lined: true}
}
