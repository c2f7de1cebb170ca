package row

import (
	"bytes"
	"database/sql"
	sqldriver "database/sql/driver"
	"encoding/binary"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/order"
	"github.com/rowlock/rowlock/mysql/internal/conn"
	"github.com/rowlock/rowlock/mysql/internal/sqltest"
)

// FuzzRowStatements: see sqltest.Fuzz.
func FuzzRowStatements(f *testing.F) {
	sqltest.Fuzz(f, func(v sqltest.Values) (s sqltest.Statements) {
		one := driver.Request{Key: v.Key, ID: v.ID, Owner: v.Owner, TTL: v.D, Keep: v.D}
		two := []driver.Request{one, {Key: v.Other, ID: v.ID, Owner: v.Owner, TTL: v.D}}
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
		s.AddBoth(remind("`t`", 7, []string{v.Key}), v.Key)
		stand := driver.Request{Key: v.Key, ID: v.ID, Owner: v.Owner, TTL: v.D, Stand: true, Claim: v.D, EntryTime: v.D}
		claim := EntryOf(&stand, 0)
		terms := string(func() []byte { b := claim.terms(); return b[:] }())
		s.AddBoth(Upsert("`t`", []driver.Request{stand}), v.Key, id, v.Owner, terms)
		other := stand
		other.Key, other.Claim = v.Other, max(driver.MinClaim, min(v.D, driver.MaxClaim))/2+driver.MinClaim
		s.AddBoth(Upsert("`t`", []driver.Request{stand, stand}), v.Key, id, v.Owner, v.Key, id, v.Owner, terms)
		if a, b := termsOf(&stand), termsOf(&other); a != b {
			s.AddBoth(Upsert("`t`", []driver.Request{stand, other}), v.Key, id, v.Owner, v.Other, id, v.Owner, v.Other, string(b[:]), string(a[:]))
		}
		nexts := []driver.Hold{hold, holds[1]}
		nexts[0].Next, nexts[1].Next = &stand, &stand
		s.AddBoth(Pass("`t`", holds[:1]), v.Key, id)
		s.AddBoth(Pass("`t`", nexts[:1]), id, id, terms, v.Key, id)
		s.AddBoth(Pass("`t`", nexts), v.Key, id, id, terms, v.Other, id, id, terms, v.Key, v.Other, v.Key, id, v.Other, id)
		s.AddBoth(Leave("`t`", nexts[:1], v.D), id, id, terms, v.Key, id)
		s.AddBoth(Depart("`t`", v.Key, &v.ID), id, id, v.Key, id)
		read := Row{Key: v.Key, ID: v.ID}.WithLine([]byte(v.Owner), 1)
		line := string(Line{claim}.bytes())
		s.AddBoth((&change{grant: &stand, line: Line{claim}}).write("`t`", &read), id, v.Owner, line, v.Key, id, v.Owner)
		s.AddBoth((&change{pass: &claim}).write("`t`", &read), id, passedOwner, "", v.Key, id, v.Owner)
		s.AddBoth(remind("`t`", 7, []string{v.Key, v.Other}), v.Key, v.Other)
		s.Add(winners(ColumnsOf, "`t`", 2, func(i int) string { return two[i].Key }), v.Key, v.Other)
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
		s, _ := order.Successor(prefix)
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
		if got, _ := sqltest.Apart(t, Listing(ColumnsOf, "`t`", prefix, key, limit)); !slices.Equal(got, want) {
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
			f.Add([]byte(text("key") + text(id) + text("owner") + number(2, token) + number(1, left) + number(6, 1) + number(1, left) + number(1, left)))
		}
		f.Add([]byte(text("key") + text(id) + text("owner") + text("18446744073709551616") + text("-9223372036854775809") + text("1") + text("1e3")))
	}
	f.Add([]byte{})
	f.Add([]byte(text("key") + text("short") + "\x00\x00\x00\x06\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		row := sqltest.Cells(data, 8)
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
		var s Scan
		if rows.Scan(s.Columns()...) != nil {
			return
		}
		r := s.Row()
		info := r.Info()
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
			a := &Attempt{Table: l, Reqs: []driver.Request{{Key: r.Key, ID: id}}, Results: make([]driver.Result, 1)}
			settled := a.settle(0, map[string]rowOf{r.Key: r})
			res := a.Results[0]
			switch {
			case !settled:
				if r.Left > 0 || r.Mine(id) && r.Corrupt != "" { // a hold that is over is none
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
			b := &Batch{Rows: l, table: l, Holds: []driver.Hold{{Key: r.Key, ID: id}}, Results: make([]driver.Result, 1)}
			if gone := b.SettleGone(0, map[string]rowOf{r.Key: r}); gone == r.Mine(id) {
				t.Errorf("%+v: gone %v", r, gone)
			}
		}
	})
}

// FuzzLine: whatever is in the column line, what is read of it is a line that can be written, and reads the same again.
func FuzzLine(f *testing.F) {
	q := driver.Request{ID: driver.HoldID{1, 2, 3}, Mode: driver.Slot, Slots: 3, Guarded: true, Claim: time.Second}
	now := time.Now().UnixMicro()
	one := Line(nil).With(&q, now)
	f.Add(one.bytes(), now)
	f.Add(append(one.bytes(), 0), now)
	f.Add(bytes.Repeat(one.bytes(), driver.MaxLine+1), now)
	f.Add(bytes.Repeat([]byte{0xff}, 2*entrySize), now)
	f.Add([]byte{}, int64(0))
	f.Fuzz(func(t *testing.T, b []byte, now int64) {
		now = min(max(now, 0), largestTime-mostEnd.Microseconds())
		l := ReadLine(b, now)
		again := ReadLine(l.bytes(), now)
		if len(l) > driver.MaxLine || !slices.Equal(l, again) {
			t.Errorf("%+v is read as %+v", l, again)
		}
		for _, e := range l {
			if e.End <= now || e.End > now+mostEnd.Microseconds() || e.Claim < driver.MinClaim || e.Claim > driver.MaxClaim || e.Mode > driver.Slot {
				t.Errorf("%+v is alive", e)
			}
		}
		q := driver.Request{ID: driver.HoldID{9, 9}, Claim: time.Second}
		if with := l.With(&q, now); with.Place(q.ID) == 0 && len(l) < driver.MaxLine || len(with.Without(q.ID)) > len(l) {
			t.Errorf("%+v with one more is %+v", l, with)
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
	stands := plain
	stands.Stand, stands.Claim = true, time.Second
	nexts := []driver.Hold{h[0]}
	nexts[0].Next = &stands
	confirms := []driver.Hold{h[0]}
	confirms[0].Confirm, confirms[0].Owner, confirms[0].Keep = true, "o'", time.Minute
	noMax := []driver.Hold{{Key: q.Key, ID: id, TTL: time.Second}}
	for name, s := range map[string]conn.Statement{
		"upsert": Upsert("`t`", []driver.Request{plain}), "upsert with a client": Upsert("`t`", []driver.Request{q}),
		"upsert that waits": Upsert("`t`", []driver.Request{waits}),
		"remind":            remind("`t`", 7, []string{q.Key}), "fence": Fence("`t`", q.Key, &id),
		"upsert that stands": Upsert("`t`", []driver.Request{stands}), "pass": Pass("`t`", nexts), "leave": Leave("`t`", nexts, time.Minute),
		"pass of two": Pass("`t`", append(nexts, h...)), "depart": Depart("`t`", q.Key, &id), "confirm": Extend("`t`", confirms),
		"extend": Extend("`t`", noMax), "extend with MaxHold": Extend("`t`", h),
		"end": End("`t`", h, 0), "end with MinHold": End("`t`", h, time.Minute), "remove": Remove("`t`", h),
	} {
		sqltest.FormsAreTheSame(t, name, s)
	}
}
