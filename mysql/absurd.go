package mysqllock

import (
	"database/sql"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/rowlock/rowlock/driver"
)

// A row may have been changed by hand: a token at the end of its range, a date that
// is none. Such a row must not spoil the statements and answers that it shares with
// others, nothing of it may wrap around, and who wants its key is told what is wrong.

// count is a number that a row shows.
type count struct {
	n    int64
	null bool
	off  bool // it is no int64: n is the nearest one, or 0
}

// Scan implements sql.Scanner. It never fails: the other columns and rows are good.
func (c *count) Scan(v any) error {
	*c = count{}
	switch v := v.(type) {
	case nil:
		c.null, c.off = true, true
	case int64:
		c.n = v
	case uint64:
		c.n, c.off = int64(min(v, math.MaxInt64)), v > math.MaxInt64
	case []byte:
		c.parse(string(v))
	case string:
		c.parse(v)
	default:
		c.off = true
	}
	return nil
}

func (c *count) parse(s string) {
	n, err := strconv.ParseInt(s, 10, 64) // out of range: the nearest
	c.n, c.off = n, err != nil
}

// micros is a duration of n microseconds, or the nearest there is.
func micros(n int64) time.Duration {
	const most = int64(math.MaxInt64 / time.Microsecond)
	return time.Duration(min(max(n, -most), most)) * time.Microsecond
}

// scanned takes the columns of a row as they come.
type scanned struct {
	key, id, owner                  sql.RawBytes
	token, left, since, wanted, now count
	live                            bool
}

func (s *scanned) columns() []any {
	return []any{&s.key, &s.id, &s.owner, &s.token, &s.left, &s.live, &s.since, &s.wanted, &s.now}
}

func (s *scanned) row() row {
	r := row{
		key: string(s.key), owner: string(s.owner), token: s.token.n, left: micros(s.left.n), live: s.live,
		fence: max(s.token.n, min(s.now.n, math.MaxInt64/driver.TokenRange)*driver.TokenRange), sinceMicros: s.since.n,
		wanted: hintOf(s.wanted.n, s.now.n),
	}
	switch {
	case s.token.off, s.token.n < 0, s.token.n > driver.MaxToken:
		r.absurd = "the token is out of range"
	case s.left.off:
		r.absurd = "expires_at is no time"
	case len(s.id) != len(r.id):
		r.absurd = fmt.Sprintf("the hold has %d bytes", len(s.id))
	}
	copy(r.id[:], s.id)
	return r
}

// unfit says why the key of a row cannot be granted, or its hold be ended by force:
// the next token must be above the row's.
func (r row) unfit() string {
	if r.absurd == "" {
		return noRoom(r.token)
	}
	return r.absurd
}

func noRoom(token int64) string {
	if token > driver.MaxToken-driver.TokenRange {
		return fmt.Sprintf("after token %d there is none", token)
	}
	return ""
}

// byHand is the error for a key whose row somebody has changed. Without its row a key
// goes on with tokens by the clock, so nobody was granted one that was out of range.
func (l *leases) byHand(step, key, why string, notApplied bool) error {
	return &driver.Error{Lasting: true, NotApplied: notApplied,
		Err: fmt.Errorf("mysql: %s %q: its row was changed by hand: %s: delete the row, which ends a hold that it may show: DELETE FROM %s WHERE name=%s",
			step, key, why, l.table, newText(0).key(key))}
}

// wrongRow reports whether the server refused a statement because of a value in a row
// that it found, and so has changed nothing.
func wrongRow(err error) bool {
	switch number(err) {
	case 1048, // a column cannot be NULL: what was computed with a date that is none
		1264, 1690, // out of range
		1292, 1411, // a date that is none
		1441: // a date that cannot be reached
		return true
	}
	return false
}
