// Package sqltest checks statements and rows in the tests of mysql and of the packages below it. It is for
// tests alone: no program gets it, see TestForTests.
package sqltest

import (
	"bytes"
	"context"
	sqldriver "database/sql/driver"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mysql/internal/conn"
)

// Nasty are strings that mean something to somebody between us and the table.
var Nasty = []string{"", "a", "A", "a ", "\x00", "'", "\\'", "''", "`", "``", "x'00'", "--", "/*!50000 */", "?", "%s", "\xff\xfe", "\xe5\\", "é", "e\u0301", "\u2028", "'; DROP TABLE rowlock_version; -- ", strings.Repeat("x", 255), strings.Repeat("\xff", 255)}

var (
	literals = regexp.MustCompile(`x'[0-9a-f]*'`)
	digits   = regexp.MustCompile(`-?\b[0-9]+\b`)
)

// Apart takes a statement with literals apart: the values of its literals, and the rest.
func Apart(t *testing.T, text string) (values []string, rest string) {
	t.Helper()
	text = strings.ReplaceAll(text, "x'00000000000000000000000000000000'", "NONE")
	for _, l := range literals.FindAllString(text, -1) {
		b, err := hex.DecodeString(l[2 : len(l)-1])
		if err != nil {
			t.Fatalf("%s: %v", l, err)
		}
		values = append(values, string(b))
	}
	return values, digits.ReplaceAllString(literals.ReplaceAllString(text, "x"), "n")
}

// Statements are the statements of a package with some values in them.
type Statements struct {
	Texts []string         // with literals
	Both  []conn.Statement // those of Texts at the beginning that are sent prepared too
	Want  [][]string       // the values of each
}

// Add adds a statement that is sent with literals only.
func (s *Statements) Add(text string, want ...string) {
	s.Texts, s.Want = append(s.Texts, text), append(s.Want, want)
}

// AddBoth adds one that is sent prepared too. It comes before the others.
func (s *Statements) AddBoth(statement conn.Statement, want ...string) {
	s.Add(statement.Literal(), want...)
	s.Both = append(s.Both, statement)
}

// Values are what a caller may put into a statement.
type Values struct {
	Key, Other, Owner string
	ID                driver.HoldID
	D                 time.Duration
}

// Fuzz checks that in every statement each value comes back byte for byte, in the form
// with literals and in that with a ? for each, and that the rest of the text does not
// depend on the values: no key, owner, run or prefix breaks out.
func Fuzz(f *testing.F, all func(Values) Statements) {
	for i, a := range Nasty {
		b := Nasty[(i+5)%len(Nasty)]
		f.Add(a, b, b, []byte(a), int64(i))
		f.Add(b, a, a, []byte(b), int64(math.MaxInt64)-int64(i))
		f.Add(a, a, a, []byte("'"), int64(math.MinInt64)+int64(i))
	}
	f.Fuzz(func(t *testing.T, key, other, owner string, idBytes []byte, d int64) {
		v := Values{Key: key, Other: other, Owner: owner, D: time.Duration(d)}
		copy(v.ID[:], idBytes)
		if v.ID == (driver.HoldID{}) {
			v.ID[0] = 1 // no attempt has that ID
		}
		s := all(v)
		plain := all(Values{Key: "k", Other: "l", Owner: "o", ID: driver.HoldID{1}, D: v.D})
		for i, text := range s.Texts {
			got, rest := Apart(t, text)
			if !slices.Equal(got, s.Want[i]) {
				t.Errorf("%s: its values are %q, want %q", text, got, s.Want[i])
			}
			if _, other := Apart(t, plain.Texts[i]); rest != other {
				t.Errorf("the text depends on its values:\n%s\n%s", rest, other)
			}
		}
		for i, one := range s.Both {
			m := conn.NewMarks()
			one(m)
			var got []string
			for _, nv := range m.Values {
				if h, ok := nv.Value.(string); ok {
					b, err := hex.DecodeString(h)
					if err != nil {
						t.Fatal(err)
					}
					got = append(got, string(b))
				}
			}
			if !slices.Equal(got, s.Want[i]) {
				t.Errorf("%s: its values are %q, want %q", m, got, s.Want[i])
			}
			if n := strings.Count(m.String(), "?"); n != len(m.Values) {
				t.Errorf("%s: %d marks, %d values", m, n, len(m.Values))
			}
			if m.Empty != slices.Contains(got, "") {
				t.Errorf("%q: empty is %v", got, m.Empty)
			}
		}
	})
}

// Given is a server that answers every question with the same rows.
type Given struct{ Rows [][]sqldriver.Value }

func (g *Given) Connect(context.Context) (sqldriver.Conn, error) { return g, nil }
func (g *Given) Driver() sqldriver.Driver                        { return nil }
func (g *Given) Prepare(string) (sqldriver.Stmt, error)          { return g, nil }
func (g *Given) Begin() (sqldriver.Tx, error)                    { return nil, errors.New("none") }
func (g *Given) Close() error                                    { return nil }
func (g *Given) NumInput() int                                   { return -1 }
func (g *Given) Exec([]sqldriver.Value) (sqldriver.Result, error) {
	return nil, errors.New("none")
}
func (g *Given) Query([]sqldriver.Value) (sqldriver.Rows, error) {
	return &GivenRows{Rows: g.Rows, columns: len(g.Rows[0])}, nil
}

// GivenRows are its rows.
type GivenRows struct {
	Rows    [][]sqldriver.Value
	columns int
}

func (g *GivenRows) Columns() []string { return make([]string, g.columns) }
func (g *GivenRows) Close() error      { return nil }
func (g *GivenRows) Next(to []sqldriver.Value) error {
	if len(g.Rows) == 0 {
		return io.EOF
	}
	copy(to, g.Rows[0])
	g.Rows = g.Rows[1:]
	return nil
}

// Cells makes n values of all types that a driver gives.
func Cells(data []byte, n int) (row []sqldriver.Value) {
	r := bytes.NewReader(data)
	number := func() (u uint64) {
		var b [8]byte
		_, _ = r.Read(b[:])
		return binary.LittleEndian.Uint64(b[:])
	}
	for range n {
		kind, _ := r.ReadByte()
		switch kind % 8 {
		case 0:
			row = append(row, nil)
		case 1:
			row = append(row, int64(number()))
		case 2:
			row = append(row, number())
		case 3, 4:
			size, _ := r.ReadByte()
			b := make([]byte, size)
			k, _ := r.Read(b)
			row = append(row, b[:k])
		case 5:
			row = append(row, math.Float64frombits(number()))
		case 6:
			row = append(row, int64(number()&1))
		case 7:
			row = append(row, time.UnixMicro(int64(number())))
		}
	}
	return row
}
