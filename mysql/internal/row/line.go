package row

import (
	"encoding/binary"
	"slices"
	"time"

	"github.com/rowlock/rowlock/driver"
)

// The line of a key is the column line of its row: the programs that wait, in the order in which they came
// (rules 19 to 23 of package driver). Each is an entry of entrySize bytes, numbers with the highest byte first, so that the server
// can compare them as bytes:
//
//	 1..16  the hold ID of the request that stands
//	17      its mode, and 0x80 if it is Guarded
//	18..19  its number of slots
//	20..23  its claim, in microseconds
//	24..30  since when it stands, in microseconds since 1970
//	31..37  when it ends
//
// A key for which nobody waits has an empty line, and every statement that takes or releases one demands that. Where the line is
// not empty the statements of linestatement.go do it, or, in what is rare, a read and an UPDATE of what was read (compareandset.go).
const (
	entrySize   = 37
	guardedBit  = 0x80
	mostEnd     = 2 * driver.MaxEntryTime // an entry that ends later was left by a clock that has been set back
	largestTime = 1<<56 - 1               // that has a place in an entry
)

// Entry is one program that waits.
type Entry struct {
	ID         driver.HoldID
	Mode       driver.Mode
	Slots      int
	Guarded    bool
	Claim      time.Duration
	Since, End int64 // microseconds since 1970, by the server's clock
}

// EntryOf is the entry of a request that begins to stand at that time.
func EntryOf(q *driver.Request, now int64) Entry {
	return Entry{
		ID: q.ID, Mode: q.Mode, Slots: q.Slots, Guarded: q.Guarded, Claim: min(max(q.Claim, driver.MinClaim), driver.MaxClaim),
		Since: now, End: now + lasts(q).Microseconds(),
	}
}

// lasts is how long the entry of a request is alive.
func lasts(q *driver.Request) time.Duration {
	if q.EntryTime <= 0 {
		return driver.EntryTime
	}
	return min(q.EntryTime, driver.MaxEntryTime)
}

// terms are the bytes of an entry between its ID and its times.
func (e *Entry) terms() (b [7]byte) {
	b[0] = byte(e.Mode)
	if e.Guarded {
		b[0] |= guardedBit
	}
	binary.BigEndian.PutUint16(b[1:], uint16(e.Slots))
	binary.BigEndian.PutUint32(b[3:], uint32(e.Claim.Microseconds()))
	return b
}

// Line is the live entries of a key.
type Line []Entry

// ReadLine reads what a row has in its column line. Dead entries are left out. What cannot be read is empty.
func ReadLine(b []byte, now int64) Line {
	if len(b)%entrySize != 0 || len(b) > entrySize*driver.MaxLine {
		return nil
	}
	var l Line
	for ; len(b) > 0; b = b[entrySize:] {
		var e Entry
		copy(e.ID[:], b)
		e.Mode, e.Guarded = driver.Mode(b[16]&^guardedBit), b[16]&guardedBit != 0
		e.Slots = int(binary.BigEndian.Uint16(b[17:]))
		e.Claim = time.Duration(binary.BigEndian.Uint32(b[19:])) * time.Microsecond
		e.Since, e.End = time7(b[23:]), time7(b[30:])
		if e.Mode > driver.Slot || e.Slots > driver.MaxSlots || e.Mode == driver.Slot && e.Slots < 1 || e.Claim < driver.MinClaim || e.Claim > driver.MaxClaim {
			return nil
		}
		if e.End > now && e.End <= now+mostEnd.Microseconds() {
			l = append(l, e)
		}
	}
	return l
}

// time7 reads a time of seven bytes.
func time7(b []byte) int64 {
	return int64(b[0])<<48 | int64(binary.BigEndian.Uint16(b[1:]))<<32 | int64(binary.BigEndian.Uint32(b[3:]))
}

// put7 writes one.
func put7(b []byte, t int64) []byte {
	return append(b, binary.BigEndian.AppendUint64(nil, uint64(min(max(t, 0), largestTime)))[1:]...)
}

// bytes are what the column has then.
func (l Line) bytes() []byte {
	b := make([]byte, 0, entrySize*len(l))
	for i := range l {
		terms := l[i].terms()
		b = put7(put7(append(append(b, l[i].ID[:]...), terms[:]...), l[i].Since), l[i].End)
	}
	return b
}

// Place is where a request stands; 0: it does not.
func (l Line) Place(id driver.HoldID) int {
	return 1 + slices.IndexFunc(l, func(e Entry) bool { return e.ID == id })
}

// Without is the line without a request.
func (l Line) Without(id driver.HoldID) Line {
	return slices.DeleteFunc(slices.Clone(l), func(e Entry) bool { return e.ID == id })
}

// With is the line with a request: at the end, or, if it stands, with a later end. One that is full does not change.
func (l Line) With(q *driver.Request, now int64) Line {
	if at := l.Place(q.ID); at > 0 {
		l = slices.Clone(l)
		l[at-1].End = max(l[at-1].End, now+lasts(q).Microseconds())
		return l
	}
	if len(l) >= driver.MaxLine {
		return l
	}
	return append(slices.Clone(l), EntryOf(q, now))
}

// Before are the entries that stand before a request: all, if it does not stand.
func (l Line) Before(id driver.HoldID) Line {
	if at := l.Place(id); at > 0 {
		return l[:at-1]
	}
	return l
}

// Exclusive reports whether an exclusive request stands in the line.
func (l Line) Exclusive() bool {
	return slices.ContainsFunc(l, func(e Entry) bool { return e.Mode == driver.Exclusive })
}

// Called is the line of a key that the readers and slots before the first exclusive request can have now: none but own has more time
// to come for it than its claim, so that those which have died delay the others no longer. changed: some had more.
func (l Line) Called(own driver.HoldID, now int64) (called Line, changed bool) {
	called = slices.Clone(l)
	for i := range called {
		e := &called[i]
		if e.Mode == driver.Exclusive {
			break
		}
		if end := now + e.Claim.Microseconds(); e.ID != own && e.End > end {
			e.End, changed = end, true
		}
	}
	return called, changed
}

// tell adds to the answer for a request what the line says.
func (l Line) tell(r *driver.Result, id driver.HoldID, now int64) {
	r.Place, r.Standing, r.First = l.Place(id), len(l), l.First(now)
}

// First is since when the first of the line stands; 0: nobody does.
func (l Line) First(now int64) time.Duration {
	if len(l) == 0 {
		return 0
	}
	return max(time.Duration(now-l[0].Since)*time.Microsecond, time.Microsecond)
}
