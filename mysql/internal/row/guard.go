package row

import (
	"encoding/binary"
	"strconv"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mysql/internal/conn"
)

// A guard locks entries of the guard indexes, each by all the columns of its index, so that
// the lock is on that entry and on no gap. An exclusive hold's is that of its row; a reader's
// that of its phase, which the next exclusive grant changes; a slot's guard has that and its
// own, which the next hold of the slot changes. Joins, renewals, releases and gates touch
// none of them.

// The reads are sent in the caller's session, whose settings may be any:
//   - name is bytes, so no character set is applied to it (character_set_results);
//   - each has a LIMIT of its own, and so has their UNION (sql_select_limit);
//   - each table is named twice, which MySQL refuses of a temporary table that hides it.

// GuardReads are the locking reads of a guard: one for each entry that there must be. in
// gives a table the form in which the transaction names it. alone: the reads of no other hold are
// in the statement.
func (l *Table) GuardReads(h driver.Hold, alone bool, in func(table string) string) []conn.Statement {
	entry := func(table string, token int64, rest conn.Statement) conn.Statement {
		return func(t *conn.Text) {
			t.Add("SELECT name FROM ", in(table), " FORCE INDEX (guard) WHERE token=").Int(token).Add(" AND name=").Key(h.Key).Part(rest)
			if alone || table == l.Share {
				t.Add(" AND NOT EXISTS(SELECT 1 FROM ", in(table), " WHERE FALSE)")
			}
			t.Add(" LIMIT 1 LOCK IN SHARE MODE")
		}
	}
	stored, id := h.Stored, h.ID
	if isShare(&h) {
		stored, id = h.Phase, phaseHold(h.Phase)
	}
	reads := []conn.Statement{entry(l.Name, stored, func(t *conn.Text) {
		if len(l.GuardColumns) == 3 { // two holds can have the same token there
			t.Add(" AND hold=").Bytes(id[:])
		}
	})}
	if h.Mode == driver.Slot {
		reads = append(reads, entry(l.Share, h.Stored, func(t *conn.Text) { t.Add(" AND slot=").Uint(slotOf(&h)) }))
	}
	return reads
}

// phaseHold is the hold of a phase of UniqueInsert that is confirmed: it is made of the
// phase's token, so that a guard can name it.
func phaseHold(token int64) (id driver.HoldID) {
	binary.BigEndian.PutUint64(id[8:], uint64(token))
	return id
}

// HoldColumns are the key, SlotColumn, hold, token and whether the hold lives, for the rows of
// holds as HoldRows names them. Of a reader or slot whose phase is over the hold is another.
func (l *Table) HoldColumns(h driver.Hold) string {
	if !isShare(&h) {
		return "name,x'',hold,token,released_at IS NULL"
	}
	return "s.name,s.slot,IF(v.phase=v.hold AND v.token=s.phase,s.hold,IF(s.phase=0,x'ff',x'')),IF(s." + aSlot + ",s.token,s.phase),s.released_at IS NULL"
}

// SlotColumn is what the row of a hold has in the column of that name: its number among the
// key's readers and slots; of an exclusive hold nothing.
func (l *Table) SlotColumn(h driver.Hold) string {
	if !isShare(&h) {
		return ""
	}
	return strconv.FormatUint(slotOf(&h), 10)
}

// HoldRows adds the rows of holds that are all exclusive, or none: FROM and WHERE.
func (l *Table) HoldRows(holds []driver.Hold) conn.Statement {
	return func(t *conn.Text) {
		if !isShare(&holds[0]) {
			t.Add(" FROM ", l.Name, " FORCE INDEX (PRIMARY) WHERE name IN ").In(len(holds), func(i int) { t.Key(holds[i].Key) })
			return
		}
		t.Add(" FROM ", l.Share, " AS s FORCE INDEX (PRIMARY) LEFT JOIN ", l.Name, " AS v FORCE INDEX (PRIMARY) ON v.name=s.name WHERE (s.name,s.slot) IN ").
			In(len(holds), func(i int) { t.Add("(").Key(holds[i].Key).Add(",").Uint(slotOf(&holds[i])).Add(")") })
	}
}
