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
		s.Add((&Table{Name: "`t`", Share: "`s`"}).forced(v.Key, nil), v.Key, v.Key)
		s.Add((&Table{Name: "`t`", Share: "`s`"}).forced(v.Key, &Row{ID: v.ID, Token: 7}), v.Key, v.Key, string(v.ID[:]))
		return s
	})
}

// FuzzPhaseStatements: see sqltest.Fuzz.
func FuzzPhaseStatements(f *testing.F) {
	sqltest.Fuzz(f, func(v sqltest.Values) (s sqltest.Statements) {
		l := &Table{Name: "`t`", Share: "`s`", fenced: true}
		begun := PhaseOf(v.ID)
		id, phase := string(v.ID[:]), string(begun[:])
		r := driver.Request{Key: v.Key, ID: v.ID, Owner: v.Owner, TTL: v.D, Keep: v.D, Mode: driver.Shared, Client: 7, Wants: true, Waited: true}
		slot := driver.Request{Key: v.Other, ID: v.ID, Owner: v.Owner, TTL: v.D, Keep: v.D, Mode: driver.Slot, Slots: 3}
		all := []joining{{&r, place{v.Key, readerSlot(&v.ID)}}, {&slot, place{v.Other, 2}}}
		holds := []driver.Hold{{Key: v.Key, ID: v.ID, Mode: driver.Shared, TTL: v.D}, {Key: v.Other, ID: v.ID, Mode: driver.Slot, Slot: 2, TTL: v.D}}
		s.AddBoth(begin(l, []driver.Request{r}), v.Key, phase, phase)
		s.AddBoth(begin(l, []driver.Request{r, slot}), v.Key, phase, phase, v.Other, phase, phase)
		s.AddBoth(confirm(l, v.Key, &v.ID), v.Key, id)
		s.AddBoth(join(l, all[0], 0), id, v.Owner, v.Key)
		s.AddBoth(join(l, all[1], 1), id, v.Owner, v.Other)
		s.AddBoth(gate(l, &r), id, v.Key, id, id)
		s.AddBoth(Ungate(l, v.Key, &v.ID), v.Key, id)
		s.AddBoth(clearGate(l, v.Key), v.Key)
		s.AddBoth(take(l, &r), v.Key, id, v.Owner, v.Key, id, v.Key)
		s.AddBoth(bury(l, v.Key), v.Key)
		s.AddBoth(ForcedShares(l, v.Key), v.Key, v.Key)
		s.AddBoth(Extend("`s`", holds[:1]), v.Key, id)
		s.AddBoth(Extend("`s`", holds), v.Key, v.Other, v.Key, id, v.Other, id)
		s.AddBoth(End("`s`", holds[1:], max(v.D, 1)), v.Other, id)
		s.AddBoth(remove("`s`", holds[:1]), v.Key, id)
		s.Add(joinAll(l, all).Literal(), v.Key, id, v.Owner, v.Other, id, v.Owner)
		s.Add(keyStatesText("`t`", 2, func(i int) string { return []string{v.Key, v.Other}[i] }), v.Key, v.Other)
		s.Add(shareRowsText(l, 2, func(i int) place { return all[i].at }), v.Key, v.Other)
		s.Add(holdersText(l, 1, func(int) string { return v.Key }), v.Key, v.Key)
		s.Add(slotsText(l, &slot), v.Other)
		for i, want := range [][]string{{v.Key, string(append(make([]byte, 8), 0, 0, 0, 0, 0, 0, 0, 5))}, {v.Other}} {
			h := holds[i]
			h.Phase, h.Stored = 5, 5
			l := &Table{Name: "`t`", Share: "`s`", GuardColumns: []string{"token", "name", "hold"}}
			reads := l.GuardReads(h, true, func(table string) string { return table })
			s.Add(reads[len(reads)-1].Literal(), want...)
		}
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

// FuzzShares: whatever rows of the share table and of keys in a phase have in their columns,
// no answer wraps around.
func FuzzShares(f *testing.F) {
	text := func(s string) string { return string([]byte{3, byte(len(s))}) + s }
	number := func(kind byte, n uint64) string {
		return string(binary.LittleEndian.AppendUint64([]byte{kind}, n))
	}
	for _, n := range []uint64{0, 1, 1 << 60, math.MaxInt64, math.MaxInt64 + 1, math.MaxUint64} {
		row := text("key") + text("0123456789abcdef") + text("owner")
		for range 12 {
			row += number(2, n)
		}
		f.Add([]byte(row))
	}
	f.Add([]byte{})
	ask := func(t *testing.T, data []byte, columns int, scan func(*sql.Rows) error) {
		db := sql.OpenDB(&sqltest.Given{Rows: [][]sqldriver.Value{sqltest.Cells(data, columns)}})
		defer db.Close()
		rows, err := db.Query("")
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		if !rows.Next() {
			t.Fatal(rows.Err())
		}
		_ = scan(rows)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		ask(t, data, 13, func(rows *sql.Rows) error {
			r, err := scanShare(rows)
			if err != nil {
				return err
			}
			if r.Corrupt == "" && (r.Token < 0 || r.Token > driver.MaxToken || r.Phase < 0 || r.Phase > driver.MaxToken) {
				t.Errorf("token %d, phase %d are taken", r.Token, r.Phase)
			}
			for _, id := range []driver.HoldID{r.ID, {1}} {
				for _, mode := range []driver.Mode{driver.Shared, driver.Slot} {
					j := joins{attempt: &attempt{Table: &Table{Name: "`t`"}, reqs: []driver.Request{{Key: r.Key, ID: id, Mode: mode}}, results: make([]driver.Result, 1)}}
					if settled := j.settleShare(0, r); settled && !r.Mine(id) {
						t.Errorf("%+v is the hold %v", r, id)
					}
					if res := j.results[0]; res.Status == driver.Granted && (res.Token < 0 || res.Token > driver.MaxToken || res.Phase < 0 || res.Left <= 0) {
						t.Errorf("%+v is granted as %+v", r, res)
					}
				}
			}
			return nil
		})
		ask(t, data, 11, func(rows *sql.Rows) error {
			k, err := scanHolders(rows)
			if err != nil {
				return err
			}
			i := driver.Info{Key: k.row.Key}
			k.inform(&i)
			if i.Held != i.InPhase() || i.Readers < 0 || i.Slots < 0 || i.FreeSlot < 0 || i.Left < 0 {
				t.Errorf("%+v is shown as %+v", k, i)
			}
			return nil
		})
		ask(t, data, 8, func(rows *sql.Rows) error { _, err := scanTaken(rows); return err })
		ask(t, data, 10, func(rows *sql.Rows) error { _, err := scanKeyState(rows); return err })
	})
}

// TestFormsAreTheSame: putting the values back gives the literal form.
func TestFormsAreTheSame(t *testing.T) {
	id := driver.HoldID{1, 2, 3}
	q := driver.Request{Key: "k?'\x00\xff", ID: id, Owner: "o?", TTL: time.Minute}
	h := []driver.Hold{{Key: q.Key, ID: id, TTL: time.Second, MaxHold: time.Hour}}
	plain, waits := q, q
	waits.Client, waits.Wants = 7, true
	q.Client = 7
	noMax := []driver.Hold{{Key: q.Key, ID: id, TTL: time.Second}}
	p := &Table{Name: "`t`", Share: "`s`"}
	r, s := q, q
	r.Mode, s.Mode, s.Slots = driver.Shared, driver.Slot, 4
	readers := []driver.Hold{{Key: q.Key, ID: id, Mode: driver.Shared, TTL: time.Second}}
	for name, s := range map[string]conn.Statement{
		"upsert": Upsert("`t`", []driver.Request{plain}), "upsert with a client": Upsert("`t`", []driver.Request{q}),
		"upsert that waits": Upsert("`t`", []driver.Request{waits}),
		"remind":            remind("`t`", 7, []string{q.Key}), "fence": Fence("`t`", q.Key, &id),
		"extend": Extend("`t`", noMax), "extend with MaxHold": Extend("`t`", h),
		"end": End("`t`", h, 0), "end with MinHold": End("`t`", h, time.Minute), "remove": Remove("`t`", h),
		"begin": begin(p, []driver.Request{r}), "confirm": confirm(p, q.Key, &id), "gate": gate(p, &q), "take": take(p, &q),
		"join": join(p, joining{&r, place{q.Key, readerSlot(&id)}}, 0), "join of a slot": join(p, joining{&s, place{q.Key, 3}}, 1<<60),
		"leave": remove("`s`", readers), "extend a reader": Extend("`s`", readers), "end a slot": End("`s`", []driver.Hold{{Key: q.Key, ID: id, Mode: driver.Slot, Slot: 3}}, 0),
	} {
		m := conn.NewMarks()
		s(m)
		text := m.String()
		for _, v := range m.Values {
			switch v := v.Value.(type) {
			case int64, uint64:
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
