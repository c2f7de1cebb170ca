package mysqllock

import (
	sqldriver "database/sql/driver"
	"encoding/hex"
	"strconv"
	"time"
)

// text builds a statement in one of two forms: with its values as literals, x'..'
// for bytes, or with a ? for each value, UNHEX(?) for bytes, for a server that keeps
// it prepared. Bytes travel in hex there too: a server shows its statements to people
// (SHOW PROCESSLIST, logs) with the values in their places, and MySQL fails those who
// look while one has bytes that are no text.
type text struct {
	b      []byte
	marks  bool // write ?
	values []sqldriver.NamedValue
	empty  bool // a value has no bytes
}

// statement writes a statement, in the form that t has.
type statement func(t *text)

// literal is the statement with literals.
func (s statement) literal() string {
	t := newText(1200)
	s(t)
	return t.String()
}

// newText is for a statement with literals, of about n bytes.
func newText(n int) *text { return &text{b: make([]byte, 0, n)} }

// newMarks is for a statement with a ? for each value.
func newMarks() *text { return &text{b: make([]byte, 0, 1200), marks: true} }

// reset makes t empty for the next statement of the same form.
func (t *text) reset() {
	clear(t.values) // they may be keys, which need not stay in memory
	t.b, t.values, t.empty = t.b[:0], t.values[:0], false
}

func (t *text) String() string { return string(t.b) }

func (t *text) add(parts ...string) *text {
	for _, p := range parts {
		t.b = append(t.b, p...)
	}
	return t
}

func (t *text) mark(v sqldriver.Value) *text {
	t.b = append(t.b, '?')
	t.values = append(t.values, sqldriver.NamedValue{Ordinal: len(t.values) + 1, Value: v})
	return t
}

// lit adds bytes.
func (t *text) lit(b []byte) *text {
	if t.marks {
		t.empty = t.empty || len(b) == 0
		t.add("UNHEX(").mark(hex.EncodeToString(b))
		return t.add(")")
	}
	t.b = append(hex.AppendEncode(append(t.b, 'x', '\''), b), '\'')
	return t
}

func (t *text) key(k string) *text { return t.lit([]byte(k)) }

// us adds a duration in microseconds, rounded up: a grant is never shorter than
// the client takes it to be.
func (t *text) us(d time.Duration) *text {
	n := int64(d / time.Microsecond)
	if d%time.Microsecond > 0 {
		n++
	}
	return t.us64(n)
}

func (t *text) us64(n int64) *text {
	if t.marks {
		return t.mark(n)
	}
	t.b = strconv.AppendInt(t.b, n, 10)
	return t
}

// in adds (a,b,…).
func (t *text) in(n int, one func(int)) *text {
	t.add("(")
	for i := range n {
		if i > 0 {
			t.add(",")
		}
		one(i)
	}
	return t.add(")")
}
