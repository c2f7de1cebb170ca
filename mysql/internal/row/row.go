package row

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"slices"
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
	passed      bool          // the hold was passed the key, and has not confirmed it: its token is final
	fence       int64         // a token later than everything that was committed before
	SinceMicros int64
	Wanted      driver.Hint // of a key that has no line
	line        []byte      // as the row has it
	now         int64       // when it was read, by the server's clock, as a Unix time in microseconds
}

// Line is the live entries of those who wait for the key.
func (r Row) Line() Line { return ReadLine(r.line, r.now) }

// HasLine reports whether there is something in the line, alive or not.
func (r Row) HasLine() bool { return len(r.line) > 0 }

// SameLine adds that the line is as it was read.
func (r Row) SameLine(t *conn.Text) { t.Add(" AND line=").Bytes(r.line) }

// WithLine is the row with what its column line has, as read at that time.
func (r Row) WithLine(line []byte, now int64) Row {
	r.line, r.now = slices.Clone(line), now
	return r
}

// Now is when the row was read, by the server's clock.
func (r Row) Now() int64 { return r.now }

// Scan takes the columns of a row as they come.
type Scan struct {
	key, id, owner                  sql.RawBytes
	token, left, since, wanted, now conn.Int
	live                            bool
	line                            sql.RawBytes
}

// Columns are where the columns of a row go, in the order of ColumnsOf.
func (s *Scan) Columns() []any {
	return []any{&s.key, &s.id, &s.owner, &s.token, &s.left, &s.live, &s.since, &s.now}
}

// Of are where they go with what the table has beside them: see Question.
func (s *Scan) Of(l *Table) []any {
	if l.Lined {
		return append(s.Columns(), &s.line)
	}
	return append(s.Columns(), &s.wanted)
}

// Row is what they say.
func (s *Scan) Row() Row {
	r := Row{
		Key: string(s.key), Owner: string(s.owner), Token: s.token.N, Left: conn.Micros(s.left.N), Live: s.live,
		fence: max(s.token.N, min(s.now.N, math.MaxInt64/driver.TokenRange)*driver.TokenRange), SinceMicros: s.since.N,
		Wanted: HintOf(s.wanted.N, s.now.N), InPhase: s.left.N >= PhaseMicros,
		line: slices.Clone(s.line), now: s.now.N,
	}
	if r.passed = r.Owner == passedOwner; r.passed {
		r.Owner = ""
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

// Question begins a question for the rows of the table.
func (l *Table) Question() string {
	if l.Lined {
		return ColumnsOf + ",line"
	}
	return ColumnsOf + ",wanted"
}

// Scan reads an answer to a Question.
func (l *Table) Scan(rows *sql.Rows) (Row, error) {
	var s Scan
	if err := rows.Scan(s.Of(l)...); err != nil {
		return Row{}, err
	}
	return s.Row(), nil
}

// PhaseMicros: a row that expires later than this, in microseconds, is that of a phase, or was
// written by hand. A key in a phase belongs to others than exclusive holds: package share has
// them. Its row says so by an end that no hold has, which is all that this package knows of it.
const PhaseMicros = int64(1e17)

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
		found, err := conn.Query(ctx, c, 0, winners(l.Question(), l.Name, to-from, func(i int) string { return key(from + i) }), l.Scan)
		if err != nil {
			return nil, err
		}
		byKey := make(map[string]Row, len(found))
		for _, r := range found {
			byKey[r.Key] = r
			l.lines.note(r.Key, len(r.line) > 0)
		}
		return byKey, nil
	})
}
