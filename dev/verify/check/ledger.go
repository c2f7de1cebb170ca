package check

import (
	"github.com/rowlock/rowlock/dev/verify/history"
)

// row names a row of a ledger. A lease can try for the same number again after a
// conflict, so several commits may mean one row.
type row struct {
	mode         history.Mode
	slot         int
	value, token int64
}

// rowOf is the row of a commit or of a ledger.
func rowOf(e history.Event) row { return row{e.Mode, e.Slot, e.Value, e.Token} }

// rows are the rows of a key's ledger beside those that commits say they wrote.
type rows struct {
	there   map[row]int
	sure    map[row]int // commits that were OK
	perhaps map[row]int // commits that nobody knows of
}

func newRows(k *key) rows {
	r := rows{make(map[row]int), make(map[row]int), make(map[row]int)}
	for _, e := range k.ledger {
		r.there[rowOf(e)]++
	}
	for _, e := range k.commits {
		switch n := rowOf(e); {
		case e.Result == history.OK:
			r.sure[n]++
		case undecided(e) && e.Sent > 0:
			r.perhaps[n]++
		}
	}
	return r
}

// tookEffect reports whether the row of a commit of unknown outcome is there, and no
// other commit can have written it.
func (r rows) tookEffect(e history.Event) bool {
	n := rowOf(e)
	return e.Sent > 0 && r.there[n] > 0 && r.sure[n] == 0 && r.perhaps[n] == 1
}

// ledger is P4, and P21 for slots, as the database has it: each guarded transaction found the number of
// the one before it and raised it by one, tokens never go back from row to row, a
// commit that was acknowledged is there once, and one that was refused is not.
//
// Each slot has a ledger of its own; the order in it is not judged where an operator
// releases keys by force. Readers have none: see guards.
//
// The order of rows is that of their IDs or numbers. Two transactions of one lease
// cannot be told apart by it.
func ledger(k *key) (found []Violation) {
	r := newRows(k)
	found = append(found, numbers(k, r)...)
	told := make(map[row]bool)
	for _, e := range k.commits {
		n := rowOf(e)
		if e.Result != history.OK || e.Mode == history.Shared || told[n] || r.there[n] >= r.sure[n] {
			continue
		}
		told[n] = true
		found = append(found, k.violation("ledger", guarding(e), []history.Event{e},
			"an acknowledged commit is not in the ledger: %s has %d of %d rows.", k.tell(e), r.there[n], r.sure[n]))
	}
	for _, l := range k.ledger {
		n := rowOf(l)
		if told[n] || r.there[n] <= r.sure[n]+r.perhaps[n] {
			continue
		}
		told[n] = true
		if e, ok := refused(k, n); ok {
			found = append(found, k.violation("ledger", guarding(l), []history.Event{e, l}, "a commit that was refused took effect: %s; in the ledger is %s.", k.tell(e), k.tell(l)))
			continue
		}
		found = append(found, k.violation("ledger", guarding(l), []history.Event{l},
			"nobody wrote %s: %d rows of it, %d commits that were answered and %d that were not.", k.tell(l), r.there[n], r.sure[n], r.perhaps[n]))
	}
	return found
}

// numbers looks at each row of a ledger beside the one before it.
func numbers(k *key, r rows) (found []Violation) {
	type name struct {
		mode history.Mode
		slot int
	}
	last, length := make(map[name]history.Event), make(map[name]int)
	for _, e := range k.ledger {
		of := name{e.Mode, e.Slot}
		if e.Mode == history.Slot && k.forced() {
			continue
		}
		before, i := last[of], length[of]
		last[of], length[of] = e, i+1
		switch {
		case e.Value == before.Value+1:
		case e.Value == before.Value && e.Token == before.Token && r.perhaps[rowOf(e)] > 0:
			// Two of one lease: the server was still committing the one whose caller had heard nothing
			// when the next one read. A guard keeps out other holds only.
		case e.Value == before.Value:
			found = append(found, k.violation("ledger", guarding(e), []history.Event{before, e},
				"a lost update: row %d, %s, found the same number as the row before it, %s.", i+1, k.tell(e), k.tell(before)))
		case e.Value > before.Value:
			found = append(found, k.violation("ledger", guarding(e), []history.Event{before, e},
				"a row is missing: number %d follows %d: %s.", e.Value, before.Value, k.tell(e)))
		default:
			found = append(found, k.violation("ledger", guarding(e), []history.Event{before, e},
				"row %d, %s, did not see the row before it, %s.", i+1, k.tell(e), k.tell(before)))
		}
		if e.Token < before.Token && k.tokensRise(always) {
			found = append(found, k.violation("ledger", guarding(e), []history.Event{before, e},
				"an old holder committed after a newer one: row %d, %s, follows %s.", i+1, k.tell(e), k.tell(before)))
		}
	}
	return found
}

// refused is a commit that said of this row that nothing took effect.
func refused(k *key, n row) (history.Event, bool) {
	for _, e := range k.commits {
		if rowOf(e) == n && e.Sent > 0 && e.Result != history.OK && !undecided(e) {
			return e, true
		}
	}
	return history.Event{}, false
}
