package row

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mysql/internal/conn"
)

// Row is what the winners' SELECT tells of a key.
type Row struct {
	Key, Owner  string
	ID          driver.HoldID
	Token       int64         // the nearest, where that of the row is no int64
	Corrupt     string        // why the row cannot be used; see corrupt.go
	Left        time.Duration // until it expires; not above zero: the key is free
	Live        bool          // not released
	InPhase     bool          // the key is in a phase, if nobody has written the row by hand
	fence       int64         // a token later than everything that was committed before
	SinceMicros int64
	Wanted      driver.Hint
}

// Scan takes the columns of a row as they come.
type Scan struct {
	key, id, owner                  sql.RawBytes
	token, left, since, wanted, now conn.Int
	live                            bool
}

// Columns are where the columns of a row go.
func (s *Scan) Columns() []any {
	return []any{&s.key, &s.id, &s.owner, &s.token, &s.left, &s.live, &s.since, &s.wanted, &s.now}
}

// Row is what they say.
func (s *Scan) Row() Row {
	r := Row{
		Key: string(s.key), Owner: string(s.owner), Token: s.token.N, Left: conn.Micros(s.left.N), Live: s.live,
		fence: max(s.token.N, min(s.now.N, math.MaxInt64/driver.TokenRange)*driver.TokenRange), SinceMicros: s.since.N,
		Wanted: HintOf(s.wanted.N, s.now.N), InPhase: s.left.N >= PhaseMicros,
	}
	switch {
	case s.token.Off, s.token.N < 0, s.token.N > driver.MaxToken:
		r.Corrupt = "the token is out of range"
	case s.left.Off:
		r.Corrupt = "expires_at is no time"
	case len(s.id) != len(r.ID):
		r.Corrupt = fmt.Sprintf("the hold has %d bytes", len(s.id))
	}
	copy(r.ID[:], s.id)
	return r
}

// ScanRow reads a row of columns.
func ScanRow(rows *sql.Rows) (Row, error) {
	var s Scan
	if err := rows.Scan(s.Columns()...); err != nil {
		return Row{}, err
	}
	return s.Row(), nil
}

// Mine reports whether the row holds the ID and was not released.
func (r Row) Mine(id driver.HoldID) bool { return r.Live && r.ID == id }

// Gone says why the hold is not the row's live one.
func (r Row) Gone(id driver.HoldID) driver.Status {
	switch r.ID {
	case id:
		return driver.Released
	case driver.HoldID{}:
		return driver.Forced
	}
	return driver.Taken
}

// Rows reads the rows of n keys. A plain read: it waits for no transaction.
func (l *Table) Rows(ctx context.Context, c *conn.Conn, n int, key func(int) string) (map[string]Row, error) {
	return conn.InParts(0, n, func(from, to int) (map[string]Row, error) {
		found, err := conn.Query(ctx, c, 0, winners(l.Name, to-from, func(i int) string { return key(from + i) }), ScanRow)
		if err != nil {
			return nil, err
		}
		byKey := make(map[string]Row, len(found))
		for _, r := range found {
			byKey[r.Key] = r
		}
		return byKey, nil
	})
}
