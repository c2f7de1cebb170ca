package mysqllock

import (
	"database/sql"
	"errors"
	"testing"

	"github.com/jmoiron/sqlx"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/mysql/internal/callertx"
)

// bare hides everything of a handle but what a Tx needs.
type bareTx struct{ Tx }

// TestP4_WhatIsATransaction: by its type, or by asking the server, which changes
// nothing in it.
func TestP4_WhatIsATransaction(t *testing.T) {
	onBoth(t, func(t *testing.T, l *lab) {
		ctx := t.Context()
		conn := func(begin ...string) *sql.Conn {
			c, err := l.db.Conn(ctx)
			must(t, err)
			t.Cleanup(func() { _ = c.Close() })
			for _, text := range append([]string{"SET SESSION autocommit=1"}, begin...) {
				_, err := c.ExecContext(ctx, text)
				must(t, err)
			}
			return c
		}
		tx, err := l.db.Begin()
		must(t, err)
		defer tx.Rollback()
		x, err := sqlx.NewDb(l.db, "mysql").Beginx()
		must(t, err)
		defer x.Rollback()
		for _, c := range []struct {
			name string
			tx   Tx
			ok   bool
		}{
			{"nil", nil, false},
			{"nil *sql.Tx", (*sql.Tx)(nil), false},
			{"*sql.DB", l.db, false},
			{"*sqlx.DB", sqlx.NewDb(l.db, "mysql"), false},
			{"a hidden pool", bareTx{l.db}, false},
			{"*sql.Tx", tx, true},
			{"*sqlx.Tx", x, true},
			{"a hidden *sql.Tx", bareTx{tx}, true},
			{"*sql.Conn", conn(), false},
			{"*sql.Conn, begun", conn("BEGIN"), true},
			{"*sql.Conn, begun and ended", conn("BEGIN", "ROLLBACK"), false},
			{"*sql.Conn without autocommit", conn("SET SESSION autocommit=0"), true},
		} {
			err := callertx.Check(ctx, c.tx)
			if c.ok && err != nil || !c.ok && !errors.Is(err, rowlock.ErrInvalid) {
				t.Errorf("%s: %v", c.name, err)
			}
		}
		exec(t, l.db, "CREATE TABLE notes (n INT) ENGINE=InnoDB")
		c := conn("BEGIN", "INSERT INTO notes VALUES (1)")
		must(t, callertx.Check(ctx, c))
		_, err = c.ExecContext(ctx, "ROLLBACK")
		must(t, err)
		var n int
		must(t, l.db.QueryRow("SELECT COUNT(*) FROM notes").Scan(&n))
		if n != 0 {
			t.Error("asking whether a transaction is open ended it")
		}
	})
}
