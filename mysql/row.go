package mysqllock

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mysql/internal/conn"
)

// row is what the winners' SELECT tells of a key.
type row struct {
	key, owner  string
	id          driver.HoldID
	token       int64         // the nearest, where that of the row is no int64
	corrupt     string        // why the row cannot be used; see corrupt.go
	left        time.Duration // until it expires; not above zero: the key is free
	live        bool          // not released
	fence       int64         // a token later than everything that was committed before
	sinceMicros int64
	wanted      driver.Hint
}

// rowScan takes the columns of a row as they come.
type rowScan struct {
	key, id, owner                  sql.RawBytes
	token, left, since, wanted, now conn.Int
	live                            bool
}

func (s *rowScan) columns() []any {
	return []any{&s.key, &s.id, &s.owner, &s.token, &s.left, &s.live, &s.since, &s.wanted, &s.now}
}

func (s *rowScan) row() row {
	r := row{
		key: string(s.key), owner: string(s.owner), token: s.token.N, left: conn.Micros(s.left.N), live: s.live,
		fence: max(s.token.N, min(s.now.N, math.MaxInt64/driver.TokenRange)*driver.TokenRange), sinceMicros: s.since.N,
		wanted: hintOf(s.wanted.N, s.now.N),
	}
	switch {
	case s.token.Off, s.token.N < 0, s.token.N > driver.MaxToken:
		r.corrupt = "the token is out of range"
	case s.left.Off:
		r.corrupt = "expires_at is no time"
	case len(s.id) != len(r.id):
		r.corrupt = fmt.Sprintf("the hold has %d bytes", len(s.id))
	}
	copy(r.id[:], s.id)
	return r
}

func scanRow(rows *sql.Rows) (row, error) {
	var s rowScan
	if err := rows.Scan(s.columns()...); err != nil {
		return row{}, err
	}
	return s.row(), nil
}

// mine reports whether the row holds the ID and was not released.
func (r row) mine(id driver.HoldID) bool { return r.live && r.id == id }

// gone says why the hold is not the row's live one.
func (r row) gone(id driver.HoldID) driver.Status {
	switch r.id {
	case id:
		return driver.Released
	case driver.HoldID{}:
		return driver.Forced
	}
	return driver.Taken
}

// rows reads the rows of n keys. A plain read: it waits for no transaction.
func (l *leases) rows(ctx context.Context, c *conn.Conn, n int, key func(int) string) (map[string]row, error) {
	return conn.InParts(0, n, func(from, to int) (map[string]row, error) {
		found, err := conn.Query(ctx, c, 0, winners(l.table, to-from, func(i int) string { return key(from + i) }), scanRow)
		if err != nil {
			return nil, err
		}
		byKey := make(map[string]row, len(found))
		for _, r := range found {
			byKey[r.key] = r
		}
		return byKey, nil
	})
}
