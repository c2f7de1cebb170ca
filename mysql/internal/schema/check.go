// Package schema compares the lock tables of a database with those that the migration makes, for Check, Migrate and Doctor.
package schema

import (
	"context"
	"database/sql"
	"slices"
	"strings"

	"github.com/rowlock/rowlock/mysql/internal/conn"
	"github.com/rowlock/rowlock/mysql/internal/row"
)

// Check looks at the tables of the layout as the statements will, and at how all of the definitions were
// made. The reads come first: they say what is missing even where information_schema shows the user nothing.
// Tables that are defined and not in the layout may be missing. What is missing comes with the advice. What
// is wrong with a table is a *Finding, the first that there is; any other error is the server's or the
// connection's.
func Check(ctx context.Context, c *conn.Conn, layout []row.Layout, defined []Definition, advice string) error {
	unread := readTables(ctx, c, layout, advice)
	if unread != nil && conn.Number(unread) != conn.ErNoIndex {
		return unread
	}
	found, err := Read(ctx, c, defined)
	if err != nil {
		return err
	}
	for _, d := range defined {
		made, needed := found[d.Table], slices.ContainsFunc(layout, func(t row.Layout) bool { return t.Table == d.Table })
		if !needed && !made.IsThere() {
			continue
		}
		if made.isForeign(d) {
			return unfit("table %s was made by somebody else: %s", d.Table, advice)
		}
		if f := made.check(d); f != nil {
			return f
		}
	}
	return unread
}

// probe reads no row of the table, but all its columns.
func probe(t row.Layout) string {
	force := ""
	if t.Guard != nil {
		force = " FORCE INDEX (guard)"
	} else if t.Index != "" {
		force = " FORCE INDEX (" + t.Index + ")"
	}
	return "SELECT " + strings.Join(t.Columns, ",") + " FROM " + t.Table + force + " LIMIT 0"
}

// readTables reads all tables in one statement, and where that fails one by one, to
// say which it is.
func readTables(ctx context.Context, c *conn.Conn, tables []row.Layout, advice string) error {
	nothing := func(*sql.Rows) (bool, error) { return true, nil }
	if len(tables) > 1 {
		all := conn.NewText(400).Add("SELECT 1 FROM ")
		for i, t := range tables {
			if i > 0 {
				all.Add(",")
			}
			all.Add("(", probe(t), ") AS t").Int(int64(i))
		}
		if _, err := conn.Query(ctx, c, 0, all.String(), nothing); err == nil {
			return nil
		}
	}
	for _, t := range tables {
		_, err := conn.Query(ctx, c, 0, probe(t), nothing)
		switch conn.Number(err) {
		case conn.ErNoTable:
			return missing(t.Table, advice, err)
		case conn.ErNoIndex:
			if t.Guard == nil {
				return unfit("table %s lacks the index %s, or the server does not use it: ALTER TABLE %s ADD KEY %s (name), or ALTER INDEX %s VISIBLE (on MariaDB NOT IGNORED): %w",
					t.Table, t.Index, t.Table, t.Index, t.Index, err)
			}
			return unfit("table %s: the server does not use the unique index guard: ALTER TABLE %s ALTER INDEX guard VISIBLE (on MariaDB NOT IGNORED): %w", t.Table, t.Table, err)
		case conn.ErNoColumn:
			return unfit("table %s was made by another version of rowlock, or by somebody else: %s: %w", t.Table, advice, err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
