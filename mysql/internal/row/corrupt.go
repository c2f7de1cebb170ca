package row

import (
	"fmt"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mysql/internal/conn"
)

// A row that somebody has changed by hand can be corrupt: a token at the end of its
// range, a date that is none. Its key is answered with an error that says what is wrong;
// the other keys of its statement are not, and no token wraps around.

// Ungrantable says why the key of a row cannot be granted, or its hold be ended by force:
// the next token must be above the row's.
func (r Row) Ungrantable() string {
	if r.Corrupt == "" {
		return TokensUsedUp(r.Token)
	}
	return r.Corrupt
}

// TokensUsedUp says why no token can follow; empty: one can.
func TokensUsedUp(token int64) string {
	if token > driver.MaxToken-driver.TokenRange {
		return fmt.Sprintf("after token %d there is none", token)
	}
	return ""
}

// CorruptError is the error for a key whose row is corrupt. Without its row a key goes on
// with tokens by the clock, so nobody was granted one that was out of range.
func (l *Table) CorruptError(step, key, why string, notApplied bool) error {
	return &driver.Error{Lasting: true, NotApplied: notApplied,
		Err: fmt.Errorf("mysql: %s %q: its row was changed by hand: %s: delete the row, which ends a hold that it may show: DELETE FROM %s WHERE name=%s",
			step, key, why, l.Name, conn.NewText(0).Key(key))}
}

// IsCorrupt reports whether the server refused a statement because of a value in a row
// that it found, and so has changed nothing.
func IsCorrupt(err error) bool {
	switch conn.Number(err) {
	case 1048, // a column cannot be NULL: what was computed with a date that is none
		1264, 1690, // out of range
		1292, 1411, // a date that is none
		1441: // a date that cannot be reached
		return true
	}
	return false
}
