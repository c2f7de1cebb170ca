package share

import (
	"encoding/binary"
	"strconv"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mysql/internal/conn"
	"github.com/rowlock/rowlock/mysql/internal/row"
)

// The entry that a guard locks of a reader is that of its phase, which the next exclusive grant
// changes; a slot's guard has that and its own, which the next hold of the slot changes. Joins,
// renewals and releases touch none of them.

// GuardReads are the locking reads of a guard: one for each entry that there must be. in
// gives a table the form in which the transaction names it. alone: the reads of no other hold are
// in the statement.
func (l *Table) GuardReads(h driver.Hold, alone bool, in func(table string) string) []conn.Statement {
	stored, id := h.Stored, h.ID
	if isShare(&h) {
		stored, id = h.Phase, phaseHold(h.Phase)
	}
	reads := []conn.Statement{l.GuardRead(in(l.Name), h.Key, stored, id, alone)}
	if h.Mode == driver.Slot {
		slot := func(t *conn.Text) { t.Add(" AND slot=").Uint(slotOf(&h)) }
		reads = append(reads, row.GuardRead(in(l.Share), h.Key, h.Stored, slot, true))
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
		return "name,x''," + row.HoldColumns
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
	if !isShare(&holds[0]) {
		return l.Table.HoldRows(holds)
	}
	return func(t *conn.Text) {
		t.Add(" FROM ", l.Share, " AS s FORCE INDEX (PRIMARY) LEFT JOIN ", l.Name, " AS v FORCE INDEX (PRIMARY) ON v.name=s.name WHERE (s.name,s.slot) IN ").
			In(len(holds), func(i int) { t.Add("(").Key(holds[i].Key).Add(",").Uint(slotOf(&holds[i])).Add(")") })
	}
}
