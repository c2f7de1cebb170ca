package mysqllock

import (
	"errors"
	"math"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mysql/internal/callertx"
	"github.com/rowlock/rowlock/mysql/internal/schema"
	"github.com/rowlock/rowlock/mysql/internal/sqltest"
)

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
	for _, s := range sqltest.Nasty {
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
			statements, err := schema.Statements(o.Prefix)
			if err != nil {
				t.Error(err)
			}
			for _, text := range statements {
				if !strings.Contains(text, " "+o.Prefix+"_") {
					t.Errorf("%s", text)
				}
			}
		}
		if strings.IndexFunc(s, func(r rune) bool { return r >= utf8.RuneSelf }) < 0 {
			in, err := callertx.TablePrefix(t.Context(), nil, s) // nobody is asked
			if name, rest := unquoted(t, in); err != nil || name != s || rest != "." {
				t.Errorf("database %q became %q, %v", s, in, err)
			}
		}
		if st, err := ParseStrategy(s); err == nil && st.String() != s || err != nil && !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("strategy %q: %v, %v", s, st, err)
		}
	})
}

// FuzzOpen: a DSN is refused or makes a Store that can be closed, without any I/O.
func FuzzOpen(f *testing.F) {
	for _, s := range append(sqltest.Nasty, "app:secret@tcp(db:3306)/app", "/", "@/", "u:p@unix(/tmp/s)/d?timeout=1s&parseTime=true", "u@tcp([::1]:1)/d?tls=skip-verify&charset=utf8mb4", "u@tcp(x)/%2e?maxAllowedPacket=-1&loc=Nowhere", "u@nonet(x)/d", "u@tcp(x)/d?connectionAttributes=a:b,c") {
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
