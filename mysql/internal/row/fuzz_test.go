package row

import (
	"database/sql"
	sqldriver "database/sql/driver"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/storekit"
	"github.com/rowlock/rowlock/mysql/internal/conn"
	"github.com/rowlock/rowlock/mysql/internal/sqltest"
)

// FuzzRowStatements: see sqltest.Fuzz.
func FuzzRowStatements(f *testing.F) {
	sqltest.Fuzz(f, func(v sqltest.Values) (s sqltest.Statements) {
		one := driver.Request{Key: v.Key, ID: v.ID, Owner: v.Owner, TTL: v.D, Keep: v.D}
		two := []driver.Request{one, {Key: v.Other, ID: v.ID, Owner: v.Owner, TTL: v.D}}
		waiting := []driver.Request{one, two[1]}
		waiting[0].Client, waiting[0].Wants, waiting[1].Client = 7, true, 7
		hold := driver.Hold{Key: v.Key, ID: v.ID, TTL: v.D, MaxHold: v.D}
		holds := []driver.Hold{hold, {Key: v.Other, ID: v.ID, TTL: v.D, MaxHold: v.D}}
		id := string(v.ID[:])
		s.AddBoth(Upsert("`t`", two[:1]), v.Key, id, v.Owner)
		s.AddBoth(Upsert("`t`", two), v.Key, id, v.Owner, v.Other, id, v.Owner)
		s.AddBoth(Fence("`t`", v.Key, &v.ID), v.Key, id)
		s.AddBoth(Extend("`t`", holds[:1]), v.Key, id)
		s.AddBoth(Extend("`t`", holds), v.Key, v.Other, v.Key, id, v.Other, id)
		s.AddBoth(End("`t`", holds[:1], max(v.D, 1)), v.Key, id)
		s.AddBoth(End("`t`", holds, 0), v.Key, v.Other, v.Key, id, v.Other, id)
		s.AddBoth(Remove("`t`", holds[:1]), v.Key, id)
		s.AddBoth(Upsert("`t`", waiting[:1]), v.Key, id, v.Owner)
		s.AddBoth(Upsert("`t`", waiting), v.Key, id, v.Owner, v.Other, id, v.Owner)
		s.AddBoth(remind("`t`", 7, []string{v.Key}), v.Key)
		s.AddBoth(remind("`t`", 7, []string{v.Key, v.Other}), v.Key, v.Other)
		s.Add(winners("`t`", 2, func(i int) string { return two[i].Key }), v.Key, v.Other)
		s.Add(forced("`t`", v.Key), v.Key)
		return s
	})
}

// FuzzListing: the statement of List asks for the keys with the prefix and no other.
func FuzzListing(f *testing.F) {
	for i, a := range sqltest.Nasty {
		f.Add(a, sqltest.Nasty[(i+3)%len(sqltest.Nasty)], i)
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
		if got, _ := sqltest.Apart(t, Listing("`t`", prefix, key, limit)); !slices.Equal(got, want) {
			t.Errorf("its values are %q, want %q", got, want)
		}
	})
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
			f.Add([]byte(text("key") + text(id) + text("owner") + number(2, token) + number(1, left) + number(6, 1) + number(1, left) + number(2, token) + number(1, left)))
		}
		f.Add([]byte(text("key") + text(id) + text("owner") + text("18446744073709551616") + text("-9223372036854775809") + text("1") + text("x") + text("1e3")))
	}
	f.Add([]byte{})
	f.Add([]byte(text("key") + text("short") + "\x00\x00\x00\x06\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		row := sqltest.Cells(data, 9)
		db := sql.OpenDB(&sqltest.Given{Rows: [][]sqldriver.Value{row}})
		defer db.Close()
		rows, err := db.Query("")
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		if !rows.Next() {
			t.Fatal(rows.Err())
		}
		r, err := ScanRow(rows)
		if err != nil {
			return
		}
		info := r.info()
		if info.Token < 0 || info.Left < 0 || info.Held != (info.Left > 0) || info.Kept && !info.Held {
			t.Errorf("%v is shown as %+v", row, info)
		}
		if r.Corrupt == "" && (r.Token < 0 || r.Token > driver.MaxToken) {
			t.Errorf("token %d is taken", r.Token)
		}
		if u, ok := row[3].(uint64); ok && u > math.MaxInt64 && (r.Corrupt == "" || r.Token != math.MaxInt64) {
			t.Errorf("token %d became %d", u, r.Token)
		}
		// An attempt that meets the row: whose it is, with any ID.
		for _, id := range []driver.HoldID{r.ID, {}, {1}} {
			l := &Table{Name: "`t`"}
			a := &attempt{Table: l, reqs: []driver.Request{{Key: r.Key, ID: id}}, results: make([]driver.Result, 1)}
			settled := a.settle(0, map[string]rowOf{r.Key: r})
			res := a.results[0]
			switch {
			case !settled:
				if r.Left > 0 || r.Mine(id) {
					t.Errorf("%+v settles nothing", r)
				}
			case res.Status == driver.Granted:
				if res.Token < 0 || res.Token > driver.MaxToken || !r.Mine(id) {
					t.Errorf("%+v is granted as %+v", r, res)
				}
			case res.Status == driver.Held:
				if res.Left <= 0 {
					t.Errorf("%+v is held as %+v", r, res)
				}
			case res.Status != driver.Unknown || !driver.IsLasting(res.Err) || driver.IsNotApplied(res.Err) == r.Mine(id):
				t.Errorf("%+v: %+v", r, res)
			}
			b := &batch{Table: l, holds: []driver.Hold{{Key: r.Key, ID: id}}, results: make([]driver.Result, 1)}
			if gone := b.settleGone(0, map[string]rowOf{r.Key: r}); gone == r.Mine(id) {
				t.Errorf("%+v: gone %v", r, gone)
			}
		}
	})
}

type rowOf = Row

// TestFormsAreTheSame: putting the values back gives the literal form.
func TestFormsAreTheSame(t *testing.T) {
	id := driver.HoldID{1, 2, 3}
	q := driver.Request{Key: "k?'\x00\xff", ID: id, Owner: "o?", TTL: time.Minute}
	h := []driver.Hold{{Key: q.Key, ID: id, TTL: time.Second, MaxHold: time.Hour}}
	plain, waits := q, q
	waits.Client, waits.Wants = 7, true
	q.Client = 7
	noMax := []driver.Hold{{Key: q.Key, ID: id, TTL: time.Second}}
	for name, s := range map[string]conn.Statement{
		"upsert": Upsert("`t`", []driver.Request{plain}), "upsert with a client": Upsert("`t`", []driver.Request{q}),
		"upsert that waits": Upsert("`t`", []driver.Request{waits}),
		"remind":            remind("`t`", 7, []string{q.Key}), "fence": Fence("`t`", q.Key, &id),
		"extend": Extend("`t`", noMax), "extend with MaxHold": Extend("`t`", h),
		"end": End("`t`", h, 0), "end with MinHold": End("`t`", h, time.Minute), "remove": Remove("`t`", h),
	} {
		m := conn.NewMarks()
		s(m)
		text := m.String()
		for _, v := range m.Values {
			switch v := v.Value.(type) {
			case int64:
				text = strings.Replace(text, "?", fmt.Sprint(v), 1)
			case string:
				_, err := hex.DecodeString(v)
				if err != nil {
					t.Fatal(err)
				}
				text = strings.Replace(text, "UNHEX(?)", "x'"+v+"'", 1)
			}
		}
		if want := s.Literal(); text != want || strings.Contains(text, "?") {
			t.Errorf("%s:\n%s\nwant\n%s", name, text, want)
		}
	}
}
