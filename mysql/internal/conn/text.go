package conn

import (
	sqldriver "database/sql/driver"
	"encoding/hex"
	"strconv"
	"time"
)

// Text builds a statement in one of two forms: with its values as literals, x'..'
// for bytes, or with a ? for each value, UNHEX(?) for bytes, for a server that keeps
// it prepared. Bytes travel in hex there too: a server shows its statements to people
// (SHOW PROCESSLIST, logs) with the values in their places, and MySQL fails those who
// look while one has bytes that are no text.
type Text struct {
	b      []byte
	marks  bool // write ?
	Values []sqldriver.NamedValue
	Empty  bool // a value has no bytes
}

// Statement writes a statement, in the form that t has.
type Statement func(t *Text)

// Literal is the statement with literals.
func (s Statement) Literal() string {
	t := NewText(1200)
	s(t)
	return t.String()
}

// NewText is for a statement with literals, of about n bytes.
func NewText(n int) *Text { return &Text{b: make([]byte, 0, n)} }

// NewMarks is for a statement with a ? for each value.
func NewMarks() *Text { return &Text{b: make([]byte, 0, 1200), marks: true} }

// reset makes t empty for the next statement of the same form.
func (t *Text) reset() {
	clear(t.Values) // they may be keys, which need not stay in memory
	t.b, t.Values, t.Empty = t.b[:0], t.Values[:0], false
}

// String is the statement.
func (t *Text) String() string { return string(t.b) }

// Add adds parts of the statement as they are.
func (t *Text) Add(parts ...string) *Text {
	for _, p := range parts {
		t.b = append(t.b, p...)
	}
	return t
}

// Part adds what s writes.
func (t *Text) Part(s Statement) *Text {
	s(t)
	return t
}

func (t *Text) mark(v sqldriver.Value) *Text {
	t.b = append(t.b, '?')
	t.Values = append(t.Values, sqldriver.NamedValue{Ordinal: len(t.Values) + 1, Value: v})
	return t
}

// Bytes adds bytes.
func (t *Text) Bytes(b []byte) *Text {
	if t.marks {
		t.Empty = t.Empty || len(b) == 0
		t.Add("UNHEX(").mark(hex.EncodeToString(b))
		return t.Add(")")
	}
	t.b = append(hex.AppendEncode(append(t.b, 'x', '\''), b), '\'')
	return t
}

// Key adds a key, or another string, as bytes.
func (t *Text) Key(k string) *Text { return t.Bytes([]byte(k)) }

// Micros adds a duration in microseconds, rounded up: a grant is never shorter than
// the client takes it to be.
func (t *Text) Micros(d time.Duration) *Text {
	n := int64(d / time.Microsecond)
	if d%time.Microsecond > 0 {
		n++
	}
	return t.Int(n)
}

// Int adds a number.
func (t *Text) Int(n int64) *Text {
	if t.marks {
		return t.mark(n)
	}
	t.b = strconv.AppendInt(t.b, n, 10)
	return t
}

// Uint adds a number that may be too large for Int.
func (t *Text) Uint(n uint64) *Text {
	if t.marks {
		return t.mark(n)
	}
	t.b = strconv.AppendUint(t.b, n, 10)
	return t
}

// Near adds that what an expression gives is within slack of n. A statement with marks gets one value.
func (t *Text) Near(expression string, n, slack int64) *Text {
	if t.marks {
		return t.Add("ABS(" + expression + "-").mark(n).Add(")<=" + strconv.FormatInt(slack, 10))
	}
	return t.Add(expression + " BETWEEN ").Int(n - slack).Add(" AND ").Int(n + slack)
}

// In adds (a,b,…).
func (t *Text) In(n int, one func(int)) *Text {
	t.Add("(")
	for i := range n {
		if i > 0 {
			t.Add(",")
		}
		one(i)
	}
	return t.Add(")")
}
