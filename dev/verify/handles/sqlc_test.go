package handles

import (
	"context"
	"database/sql"
)

// What follows has the shape that sqlc (engine mysql, sql_package database/sql) gives
// to its db.go and query.sql.go.

type DBTX interface {
	ExecContext(context.Context, string, ...interface{}) (sql.Result, error)
	PrepareContext(context.Context, string) (*sql.Stmt, error)
	QueryContext(context.Context, string, ...interface{}) (*sql.Rows, error)
	QueryRowContext(context.Context, string, ...interface{}) *sql.Row
}

func New(db DBTX) *Queries {
	return &Queries{db: db}
}

type Queries struct {
	db DBTX
}

func (q *Queries) WithTx(tx *sql.Tx) *Queries {
	return &Queries{
		db: tx,
	}
}

const insertNote = `-- name: InsertNote :exec
INSERT INTO notes (n) VALUES (?)
`

func (q *Queries) InsertNote(ctx context.Context, n int) error {
	_, err := q.db.ExecContext(ctx, insertNote, n)
	return err
}
