package row

import (
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mysql/internal/conn"
)

// A guard locks entries of the guard indexes, each by all the columns of its index, so that
// the lock is on that entry and on no gap. An exclusive hold's is that of its row; package share
// has those of readers and slots. Renewals and releases touch none of them.

// The reads are sent in the caller's session, whose settings may be any:
//   - name is bytes, so no character set is applied to it (character_set_results);
//   - each has a LIMIT of its own, and so has their UNION (sql_select_limit);
//   - each table is named twice, which MySQL refuses of a temporary table that hides it.

// GuardRead is the locking read of one entry in the guard index of a table: rest adds what the
// index has beside token and key. twice names the table once more,
// where no other part of the statement does.
func GuardRead(table, key string, token int64, rest conn.Statement, twice bool) conn.Statement {
	return func(t *conn.Text) {
		t.Add("SELECT name FROM ", table, " FORCE INDEX (guard) WHERE token=").Int(token).Add(" AND name=").Key(key).Part(rest)
		if twice {
			t.Add(" AND NOT EXISTS(SELECT 1 FROM ", table, " WHERE FALSE)")
		}
		t.Add(" LIMIT 1 LOCK IN SHARE MODE")
	}
}

// GuardRead is that of a key's row with a token and a hold. in is the Table's name in the
// transaction.
func (l *Table) GuardRead(in, key string, token int64, hold driver.HoldID, twice bool) conn.Statement {
	return GuardRead(in, key, token, func(t *conn.Text) {
		if len(l.GuardColumns) == 3 { // two holds can have the same token there
			t.Add(" AND hold=").Bytes(hold[:])
		}
	}, twice)
}

// HoldColumns are the hold, its token and whether it lives, for rows as HoldRows names them.
const HoldColumns = "hold,token,released_at IS NULL"

// HoldRows adds the rows of exclusive holds: FROM and WHERE.
func (l *Table) HoldRows(holds []driver.Hold) conn.Statement {
	return func(t *conn.Text) {
		t.Add(" FROM ", l.Name, " FORCE INDEX (PRIMARY) WHERE name IN ").In(len(holds), func(i int) { t.Key(holds[i].Key) })
	}
}
