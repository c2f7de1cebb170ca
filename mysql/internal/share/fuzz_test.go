package share

import (
	"database/sql"
	sqldriver "database/sql/driver"
	"encoding/binary"
	"math"
	"testing"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mysql/internal/conn"
	"github.com/rowlock/rowlock/mysql/internal/row"
	"github.com/rowlock/rowlock/mysql/internal/sqltest"
)

// FuzzPhaseStatements: see sqltest.Fuzz.
func FuzzPhaseStatements(f *testing.F) {
	sqltest.Fuzz(f, func(v sqltest.Values) (s sqltest.Statements) {
		l := New(&row.Table{Name: "`t`", Fenced: true}, "`s`")
		begun := PhaseOf(v.ID)
		id, phase := string(v.ID[:]), string(begun[:])
		r := driver.Request{Key: v.Key, ID: v.ID, Owner: v.Owner, TTL: v.D, Keep: v.D, Mode: driver.Shared, Client: 7, Wants: true, Waited: true}
		slot := driver.Request{Key: v.Other, ID: v.ID, Owner: v.Owner, TTL: v.D, Keep: v.D, Mode: driver.Slot, Slots: 3}
		all := []joining{{Request: &r, at: place{v.Key, readerSlot(&v.ID)}}, {Request: &slot, at: place{v.Other, 2}}}
		holds := []driver.Hold{{Key: v.Key, ID: v.ID, Mode: driver.Shared, TTL: v.D}, {Key: v.Other, ID: v.ID, Mode: driver.Slot, Slot: 2, TTL: v.D}}
		s.AddBoth(begin(l, []driver.Request{r}), v.Key, phase, phase)
		s.AddBoth(begin(l, []driver.Request{r, slot}), v.Key, phase, phase, v.Other, phase, phase)
		s.AddBoth(confirm(l, v.Key, &v.ID), v.Key, id)
		s.AddBoth(join(l, all[0], 0), id, v.Owner, v.Key)
		s.AddBoth(join(l, all[1], 1), id, v.Owner, v.Other)
		s.AddBoth(gate(l, &r), id, v.Key, id, id)
		s.AddBoth(Ungate(l, v.Key, &v.ID), v.Key, id)
		s.AddBoth(clearGate(l, v.Key), v.Key)
		s.AddBoth(bury(l, v.Key), v.Key)
		lined := New(&row.Table{Name: "`t`", Lined: true}, "`s`")
		read := row.Row{Key: v.Key, ID: v.ID}.WithLine([]byte(v.Owner), 1)
		among := joining{Request: &r, at: place{v.Key, 2}, among: &read}
		s.AddBoth(join(lined, all[0], 0), id, v.Owner, v.Key)
		s.AddBoth(join(lined, among, 0), id, v.Owner, v.Key, v.Owner)
		s.AddBoth(joinAll(lined, all), v.Key, id, v.Owner, v.Other, id, v.Owner)
		entry := row.Entry{ID: v.ID, Mode: driver.Shared}
		s.AddBoth(joinRun(lined, &read, row.Line{entry, entry}), id, id, v.Key, id)
		s.AddBoth(writeLine(lined, &read, nil), "", v.Key, v.Owner)
		s.AddBoth(beginLined(lined, &read, &begun), phase, phase, v.Key, id, v.Owner)
		s.AddBoth(takeLined(lined, &r, &row.Entry{ID: v.ID}, read, nil), v.Key, id, v.Owner, "", v.Key, v.Owner)
		s.AddBoth(takeLined(lined, &r, &row.Entry{ID: driver.HoldID{9}}, read, nil), v.Key, "\t"+string(make([]byte, 15)), "", v.Key, v.Owner)
		s.AddBoth(ForcedShares(l, v.Key), v.Key, v.Key)
		s.AddBoth(l.extend(holds[:1]), v.Key, id)
		s.AddBoth(l.extend(holds), v.Key, v.Other, v.Key, id, v.Other, id)
		s.AddBoth(l.end(holds[1:], max(v.D, 1)), v.Other, id)
		s.AddBoth(l.remove(holds[:1]), v.Key, id)
		s.Add(l.forced(v.Key, nil), v.Key, v.Key)
		s.Add(l.forced(v.Key, &row.Row{ID: v.ID, Token: 7}), v.Key, v.Key, string(v.ID[:]))
		s.Add(joinAll(l, all).Literal(), v.Key, id, v.Owner, v.Other, id, v.Owner)
		s.Add(keyStatesText(l, 2, func(i int) string { return []string{v.Key, v.Other}[i] }), v.Key, v.Other)
		s.Add(shareRowsText(l, 2, func(i int) place { return all[i].at }), v.Key, v.Other)
		s.Add(holdersText(l, 1, func(int) string { return v.Key }), v.Key, v.Key)
		s.Add(slotsText(l, &slot), v.Other)
		for i, want := range [][]string{{v.Key, string(append(make([]byte, 8), 0, 0, 0, 0, 0, 0, 0, 5))}, {v.Other}} {
			h := holds[i]
			h.Phase, h.Stored = 5, 5
			l := New(&row.Table{Name: "`t`", GuardColumns: []string{"token", "name", "hold"}}, "`s`")
			reads := l.GuardReads(h, true, func(table string) string { return table })
			s.Add(reads[len(reads)-1].Literal(), want...)
		}
		return s
	})
}

// FuzzShares: whatever rows of the share table and of keys in a phase have in their columns,
// no answer wraps around.
func FuzzShares(f *testing.F) {
	text := func(s string) string { return string([]byte{3, byte(len(s))}) + s }
	number := func(kind byte, n uint64) string {
		return string(binary.LittleEndian.AppendUint64([]byte{kind}, n))
	}
	for _, n := range []uint64{0, 1, 1 << 60, math.MaxInt64, math.MaxInt64 + 1, math.MaxUint64} {
		cells := text("key") + text("0123456789abcdef") + text("owner")
		for range 12 {
			cells += number(2, n)
		}
		f.Add([]byte(cells))
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
					j := joins{attempt: &attempt{Table: New(&row.Table{Name: "`t`"}, ""), reqs: []driver.Request{{Key: r.Key, ID: id, Mode: mode}}, results: make([]driver.Result, 1)}}
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
		lined := New(&row.Table{Lined: true}, "")
		ask(t, data, 13, func(rows *sql.Rows) error {
			k, err := lined.scanHolders(rows)
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
		ask(t, data, 11, func(rows *sql.Rows) error { _, err := lined.scanKeyState(rows); return err })
	})
}

// TestFormsAreTheSame: putting the values back gives the literal form.
func TestFormsAreTheSame(t *testing.T) {
	id := driver.HoldID{1, 2, 3}
	q := driver.Request{Key: "k?'\x00\xff", ID: id, Owner: "o?", TTL: time.Minute}
	q.Client = 7
	p := New(&row.Table{Name: "`t`"}, "`s`")
	r, s := q, q
	r.Mode, s.Mode, s.Slots = driver.Shared, driver.Slot, 4
	readers := []driver.Hold{{Key: q.Key, ID: id, Mode: driver.Shared, TTL: time.Second}}
	for name, s := range map[string]conn.Statement{
		"begin": begin(p, []driver.Request{r}), "confirm": confirm(p, q.Key, &id), "gate": gate(p, &q),
		"join": join(p, joining{Request: &r, at: place{q.Key, readerSlot(&id)}}, 0), "join of a slot": join(p, joining{Request: &s, at: place{q.Key, 3}}, 1<<60),
		"leave": p.remove(readers), "extend a reader": p.extend(readers), "end a slot": p.end([]driver.Hold{{Key: q.Key, ID: id, Mode: driver.Slot, Slot: 3}}, 0),
	} {
		sqltest.FormsAreTheSame(t, name, s)
	}
}
