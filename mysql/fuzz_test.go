package mysqllock

import (
	"bytes"
	"context"
	"database/sql"
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
	"github.com/rowlock/rowlock/internal/storekit"
	"github.com/rowlock/rowlock/mysql/internal/conn"
)

// nasty are strings that mean something to somebody between us and the table.
var nasty = []string{"", "a", "A", "a ", "\x00", "'", "\\'", "''", "`", "``", "x'00'", "--", "/*!50000 */", "?", "%s", "\xff\xfe", "\xe5\\", "é", "e\u0301", "\u2028", "'; DROP TABLE rowlock_version; -- ", strings.Repeat("x", 255), strings.Repeat("\xff", 255)}

var (
	literals = regexp.MustCompile(`x'[0-9a-f]*'`)
	digits   = regexp.MustCompile(`-?\b[0-9]+\b`)
)

// apart takes a statement apart: the values of its literals, and the rest.
func apart(t *testing.T, text string) (values []string, rest string) {
	t.Helper()
	text = strings.ReplaceAll(text, none, "NONE")
	for _, l := range literals.FindAllString(text, -1) {
		b, err := hex.DecodeString(l[2 : len(l)-1])
		if err != nil {
			t.Fatalf("%s: %v", l, err)
		}
		values = append(values, string(b))
	}
	return values, digits.ReplaceAllString(literals.ReplaceAllString(text, "x"), "n")
}

// FuzzStatements: in every statement each value comes back byte for byte, in the
// form with literals and in that with a ? for each, and the rest of the text does
// not depend on the values: no key, owner, run or prefix breaks out.
func FuzzStatements(f *testing.F) {
	for i, a := range nasty {
		b := nasty[(i+5)%len(nasty)]
		f.Add(a, b, b, []byte(a), int64(i))
		f.Add(b, a, a, []byte(b), int64(math.MaxInt64)-int64(i))
		f.Add(a, a, a, []byte("'"), int64(math.MinInt64)+int64(i))
	}
	fu := &forUpdate{lease: &leases{table: "`rowlock_session`"}, rows: "`rowlock_session_row`"}
	tx := &txLock{table: "`app`.`rowlock_tx`"}
	type values struct {
		key, other, owner string
		id                driver.HoldID
		d                 time.Duration
	}
	all := func(v values) (texts []string, both []conn.Statement, want [][]string) {
		add := func(text string, w ...string) { texts, want = append(texts, text), append(want, w) }
		one := driver.Request{Key: v.key, ID: v.id, Owner: v.owner, TTL: v.d, Keep: v.d}
		two := []driver.Request{one, {Key: v.other, ID: v.id, Owner: v.owner, TTL: v.d}}
		waiting := []driver.Request{one, two[1]}
		waiting[0].Client, waiting[0].Wants, waiting[1].Client = 7, true, 7
		hold := driver.Hold{Key: v.key, ID: v.id, TTL: v.d, MaxHold: v.d}
		holds := []driver.Hold{hold, {Key: v.other, ID: v.id, TTL: v.d, MaxHold: v.d}}
		id := string(v.id[:])
		k := func(i int) string { return two[i].Key }
		for _, s := range []struct {
			conn.Statement
			want []string
		}{
			{upsert("`t`", two[:1]), []string{v.key, id, v.owner}},
			{upsert("`t`", two), []string{v.key, id, v.owner, v.other, id, v.owner}},
			{fence("`t`", v.key, &v.id), []string{v.key, id}},
			{extend("`t`", holds[:1]), []string{v.key, id}},
			{extend("`t`", holds), []string{v.key, v.other, v.key, id, v.other, id}},
			{end("`t`", holds[:1], max(v.d, 1)), []string{v.key, id}},
			{end("`t`", holds, 0), []string{v.key, v.other, v.key, id, v.other, id}},
			{remove("`t`", holds[:1]), []string{v.key, id}},
			{fu.write(one, 1, int64(v.d), false), []string{id, v.owner, v.key}},
			{upsert("`t`", waiting[:1]), []string{v.key, id, v.owner}},
			{upsert("`t`", waiting), []string{v.key, id, v.owner, v.other, id, v.owner}},
			{fu.write(waiting[0], 1, int64(v.d), true), []string{id, v.owner, v.key}},
			{remind("`t`", 7, []string{v.key}), []string{v.key}},
			{remind("`t`", 7, []string{v.key, v.other}), []string{v.key, v.other}},
		} {
			add(s.Literal(), s.want...)
			both = append(both, s.Statement)
		}
		add(winners("`t`", 2, k), v.key, v.other)
		add(forced("`t`", v.key), v.key)
		add(fu.lockRow(v.key), v.key)
		add(fu.waitRow(v.key), v.key)
		add(fu.createLease(v.key), v.key)
		add(fu.createRow(v.key), v.key)
		add(fu.whose(v.key), v.key, v.key)
		add(fu.beat(v.key), v.key)
		add(fu.confirm(v.key), v.key)
		add(fu.revoke(v.key, v.id), v.key, id)
		add(fu.free([]string{v.key, v.other}), v.key, v.other)
		add(fu.states([]string{v.key, v.other}), v.key, v.other)
		add(fu.disown(v.key, int64(v.d)), v.key)
		add(tx.insert([]string{v.key, v.other}), v.key, v.other)
		add(tx.statement([]string{v.key, v.other}, " NOWAIT"), v.key, v.other)
		add(getLock("`t`", v.key), v.key, v.key)
		return texts, both, want
	}
	f.Fuzz(func(t *testing.T, key, other, owner string, idBytes []byte, d int64) {
		v := values{key: key, other: other, owner: owner, d: time.Duration(d)}
		copy(v.id[:], idBytes)
		if v.id == (driver.HoldID{}) {
			v.id[0] = 1 // no attempt has that ID
		}
		texts, both, want := all(v)
		plain, _, _ := all(values{key: "k", other: "l", owner: "o", id: driver.HoldID{1}, d: v.d})
		for i, text := range texts {
			got, rest := apart(t, text)
			if !slices.Equal(got, want[i]) {
				t.Errorf("%s: its values are %q, want %q", text, got, want[i])
			}
			if _, other := apart(t, plain[i]); rest != other {
				t.Errorf("the text depends on its values:\n%s\n%s", rest, other)
			}
		}
		for i, s := range both {
			m := conn.NewMarks()
			s(m)
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
			if !slices.Equal(got, want[i]) {
				t.Errorf("%s: its values are %q, want %q", m, got, want[i])
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

// FuzzListing: the statement of List asks for the keys with the prefix and no other.
func FuzzListing(f *testing.F) {
	for i, a := range nasty {
		f.Add(a, nasty[(i+3)%len(nasty)], i)
	}
	f.Add("\xff\xff", "\xff\xff\x00", 1)
	f.Add("a\xff", "b", math.MaxInt)
	f.Fuzz(func(t *testing.T, prefix, key string, limit int) {
		s, _ := storekit.Successor(prefix)
		in := key >= prefix && (s == "" || key < s)
		if prefix == "" {
			in = true
		}
		if in != strings.HasPrefix(key, prefix) {
			t.Errorf("key %q, prefix %q, successor %q", key, prefix, s)
		}
		want := []string{key}
		if prefix != "" {
			if want = append(want, prefix); s != "" {
				want = append(want, s)
			}
		}
		if got, _ := apart(t, listing("`t`", prefix, key, limit)); !slices.Equal(got, want) {
			t.Errorf("its values are %q, want %q", got, want)
		}
	})
}

// unquoted is the inverse of a quoted name: https://dev.mysql.com/doc/refman/9.7/en/identifiers.html
func unquoted(t *testing.T, s string) (name, rest string) {
	t.Helper()
	if !strings.HasPrefix(s, "`") {
		t.Fatalf("%q is not quoted", s)
	}
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		if s[i] == '`' {
			if i+1 == len(s) || s[i+1] != '`' {
				return b.String(), s[i+1:]
			}
			i++
		}
		b.WriteByte(s[i])
	}
	t.Fatalf("%q does not end", s)
	return "", ""
}

// FuzzNames: what becomes part of a statement as a name is refused, or is that name
// and no more.
func FuzzNames(f *testing.F) {
	for _, s := range nasty {
		f.Add(s)
	}
	f.Add("rowlock")
	f.Add("_a1")
	f.Add("app`.`other")
	f.Add(strings.Repeat("a", 41))
	f.Add(strings.Repeat("a", 42))
	f.Fuzz(func(t *testing.T, s string) {
		o, err := Options{Prefix: s}.fill()
		switch {
		case err != nil:
			if !errors.Is(err, driver.ErrInvalid) {
				t.Errorf("%v", err)
			}
		default:
			for _, n := range []string{newNames(o.Prefix).version, newNames(o.Prefix).sessionRow} {
				if name, rest := unquoted(t, n); !strings.HasPrefix(name, o.Prefix+"_") || rest != "" || len(name) > 64 {
					t.Errorf("%q is the name of a table", n)
				}
			}
			statements, err := migrationsFor(o.Prefix)
			if err != nil {
				t.Error(err)
			}
			for _, text := range statements {
				if !strings.Contains(text, " "+o.Prefix+"_") {
					t.Errorf("%s", text)
				}
			}
		}
		if in := inDatabase(s, "`t`"); in != "`t`" {
			if name, rest := unquoted(t, in); name != s || rest != ".`t`" {
				t.Errorf("database %q became %q", s, in)
			}
		}
		if st, err := ParseStrategy(s); err == nil && st.String() != s || err != nil && !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("strategy %q: %v, %v", s, st, err)
		}
	})
}

// FuzzVersion: any version is taken or refused; only a number of our own kind is taken.
func FuzzVersion(f *testing.F) {
	for _, s := range append(nasty, "8.0.36", "9.7.4-2", "5.7.44", "5.5.5-10.6.1-MariaDB", "10.11.6-MARIADB", "10.5.0-MariaDB", "99999999999999999999.1", "9223372036854775807.9223372036854775807", "-8.0", "8", "8.") {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if err := supported(s); err != nil && !errors.Is(err, driver.ErrNotSupported) {
			t.Errorf("%q: %v", s, err)
		} else if err == nil && !leadingVersion.MatchString(s) {
			t.Errorf("%q is taken", s)
		}
	})
}

// FuzzOpen: a DSN is refused or makes a Store that can be closed, without any I/O.
func FuzzOpen(f *testing.F) {
	for _, s := range append(nasty, "app:secret@tcp(db:3306)/app", "/", "@/", "u:p@unix(/tmp/s)/d?timeout=1s&parseTime=true", "u@tcp([::1]:1)/d?tls=skip-verify&charset=utf8mb4", "u@tcp(x)/%2e?maxAllowedPacket=-1&loc=Nowhere", "u@nonet(x)/d", "u@tcp(x)/d?connectionAttributes=a:b,c") {
		f.Add(s, 0, 0, uint8(0))
		f.Add(s, math.MaxInt, -1, uint8(2))
		f.Add(s, math.MaxInt-1, math.MaxInt, uint8(1))
		f.Add(s, 4, 1, uint8(255))
	}
	f.Fuzz(func(t *testing.T, dsn string, connections, wakeups int, strategy uint8) {
		s, err := Open(dsn, Options{Connections: connections, WakeupConns: wakeups, Strategy: Strategy(strategy)})
		if err != nil {
			if !errors.Is(err, driver.ErrInvalid) {
				t.Errorf("%q: %v", dsn, err)
			}
			return
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

// given is a server that answers every question with the same rows.
type given struct{ rows [][]sqldriver.Value }

func (g *given) Connect(context.Context) (sqldriver.Conn, error) { return g, nil }
func (g *given) Driver() sqldriver.Driver                        { return nil }
func (g *given) Prepare(string) (sqldriver.Stmt, error)          { return g, nil }
func (g *given) Begin() (sqldriver.Tx, error)                    { return nil, errors.New("none") }
func (g *given) Close() error                                    { return nil }
func (g *given) NumInput() int                                   { return -1 }
func (g *given) Exec([]sqldriver.Value) (sqldriver.Result, error) {
	return nil, errors.New("none")
}
func (g *given) Query([]sqldriver.Value) (sqldriver.Rows, error) {
	return &givenRows{rows: g.rows}, nil
}

type givenRows struct{ rows [][]sqldriver.Value }

func (g *givenRows) Columns() []string { return make([]string, 8) }
func (g *givenRows) Close() error      { return nil }
func (g *givenRows) Next(to []sqldriver.Value) error {
	if len(g.rows) == 0 {
		return io.EOF
	}
	copy(to, g.rows[0])
	g.rows = g.rows[1:]
	return nil
}

// cells makes n values of all types that a driver gives.
func cells(data []byte, n int) (row []sqldriver.Value) {
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

// FuzzRows: whatever a row has in its columns, the answer is an error or something
// that a caller can be told: nothing wraps around, and a row that is not as the
// library writes it says so.
func FuzzRows(f *testing.F) {
	id := "0123456789abcdef"
	number := func(kind byte, n uint64) string {
		return string(binary.LittleEndian.AppendUint64([]byte{kind}, n))
	}
	text := func(s string) string { return string([]byte{3, byte(len(s))}) + s }
	for _, token := range []uint64{0, 1, 1 << 60, math.MaxInt64, math.MaxInt64 + 1, math.MaxUint64} {
		for _, left := range []uint64{0, 1, 1 << 62, math.MaxInt64, 1 << 63} {
			f.Add([]byte(text("key") + text(id) + text("owner") + number(2, token) + number(1, left) + number(6, 1) + number(2, token) + number(1, left)))
		}
		f.Add([]byte(text("key") + text(id) + text("owner") + text("18446744073709551616") + text("-9223372036854775809") + text("1") + text("x") + text("1e3")))
	}
	f.Add([]byte{})
	f.Add([]byte(text("key") + text("short") + "\x00\x00\x00\x06\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		row := cells(data, 8)
		db := sql.OpenDB(&given{rows: [][]sqldriver.Value{row}})
		defer db.Close()
		rows, err := db.Query("")
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		if !rows.Next() {
			t.Fatal(rows.Err())
		}
		r, err := scanRow(rows)
		if err != nil {
			return
		}
		info := r.info()
		if info.Token < 0 || info.Left < 0 || info.Held != (info.Left > 0) || info.Kept && !info.Held {
			t.Errorf("%v is shown as %+v", row, info)
		}
		if r.corrupt == "" && (r.token < 0 || r.token > driver.MaxToken) {
			t.Errorf("token %d is taken", r.token)
		}
		if u, ok := row[3].(uint64); ok && u > math.MaxInt64 && (r.corrupt == "" || r.token != math.MaxInt64) {
			t.Errorf("token %d became %d", u, r.token)
		}
		// An attempt that meets the row: whose it is, with any ID.
		for _, id := range []driver.HoldID{r.id, {}, {1}} {
			l := &leases{table: "`t`"}
			a := &attempt{leases: l, reqs: []driver.Request{{Key: r.key, ID: id}}, results: make([]driver.Result, 1)}
			settled := a.settle(0, map[string]rowOf{r.key: r})
			res := a.results[0]
			switch {
			case !settled:
				if r.left > 0 || r.mine(id) {
					t.Errorf("%+v settles nothing", r)
				}
			case res.Status == driver.Granted:
				if res.Token < 0 || res.Token > driver.MaxToken || !r.mine(id) {
					t.Errorf("%+v is granted as %+v", r, res)
				}
			case res.Status == driver.Held:
				if res.Left <= 0 {
					t.Errorf("%+v is held as %+v", r, res)
				}
			case res.Status != driver.Unknown || !driver.IsLasting(res.Err) || driver.IsNotApplied(res.Err) == r.mine(id):
				t.Errorf("%+v: %+v", r, res)
			}
			b := &batch{leases: l, holds: []driver.Hold{{Key: r.key, ID: id}}, results: make([]driver.Result, 1)}
			if gone := b.settleGone(0, map[string]rowOf{r.key: r}); gone == r.mine(id) {
				t.Errorf("%+v: gone %v", r, gone)
			}
		}
		if s := (state{row: r, kept: r.left}); s.info().Left < 0 || s.info().Token < 0 {
			t.Errorf("%v is shown as %+v", row, s.info())
		}
		// And each cell as the answer to a question for one number.
		for _, v := range row {
			found, err := conn.ScanNumbers(&givenRows{rows: [][]sqldriver.Value{{v}}})
			if u, ok := v.(uint64); ok && u > math.MaxInt64 && err == nil {
				t.Errorf("%d was read as %v", u, found)
			}
		}
	})
}

type rowOf = row
