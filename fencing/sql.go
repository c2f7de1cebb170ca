package fencing

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/rowlock/rowlock/driver"
)

// DB is what Update writes to: a *sql.DB, *sql.Tx, *sql.Conn, or a like handle of
// another library.
type DB interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// Update is an UPDATE of one row that a newer holder has not written to. The row
// has a column for the token of its last write: BIGINT NOT NULL DEFAULT 0.
//
// Table, Column, Set and Where are put into the statement as they are: constants of
// the program, never input. Values come by ? and its arguments.
type Update struct {
	Table  string // its name as in SQL
	Column string // of the token; default fence
	Set    string // "total = ?, paid = ?"
	Values []any  // of Set
	Where  string // names one row: "id = ?"
	Row    []any  // of Where
}

// Run sends
//
//	UPDATE table SET set, fence = token WHERE (where) AND fence <= token
//
// with one trip. The same token may write again and again. If the database says
// that nothing changed it asks for the row's token, one trip more: a MySQL does not
// count a row to which the values that it has were written.
//
// Errors: ErrStale, with both tokens in the text; sql.ErrNoRows, wrapped: there is no such row;
// rowlock.ErrInvalid: a field is missing, or the token is not above 0; others come
// from db. It may be called concurrently as far as db may.
func (u Update) Run(ctx context.Context, db DB, token int64) error {
	if u.Column == "" {
		u.Column = "fence"
	}
	if u.Table == "" || u.Set == "" || u.Where == "" || token <= 0 {
		return fmt.Errorf("fencing: %w: Table, Set and Where are needed, and a token above 0 (it is %d)", driver.ErrInvalid, token)
	}
	args := make([]any, 0, len(u.Values)+len(u.Row)+2)
	args = append(args, u.Values...)
	args = append(args, token)
	args = append(args, u.Row...)
	args = append(args, token)
	res, err := db.ExecContext(ctx, "UPDATE "+u.Table+" SET "+u.Set+", "+u.Column+" = ? WHERE ("+u.Where+") AND "+u.Column+" <= ?", args...)
	if err != nil {
		return err
	}
	n, err := res.RowsAffected()
	if err != nil || n > 0 {
		return err
	}
	seen, err := u.seen(ctx, db)
	switch {
	case err != nil:
		return err
	case seen > token:
		return stale(token, seen)
	case seen < token:
		return fmt.Errorf("fencing: the row of %s appeared while it was updated: %w", u.Table, sql.ErrNoRows)
	}
	return nil
}

// seen reads the row's token. FOR UPDATE, because a plain read in a transaction may
// show the row as it was before the newer holder wrote.
func (u Update) seen(ctx context.Context, db DB) (seen int64, err error) {
	rows, err := db.QueryContext(ctx, "SELECT "+u.Column+" FROM "+u.Table+" WHERE "+u.Where+" FOR UPDATE", u.Row...)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	if !rows.Next() {
		if err := rows.Err(); err != nil {
			return 0, err
		}
		return 0, fmt.Errorf("fencing: update of %s: %w", u.Table, sql.ErrNoRows)
	}
	if err := rows.Scan(&seen); err != nil {
		return 0, err
	}
	return seen, rows.Close()
}

func stale(token, seen int64) error {
	return fmt.Errorf("%w: it is %d, and %d was here", ErrStale, token, seen)
}
