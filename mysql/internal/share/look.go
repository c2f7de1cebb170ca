package share

import (
	"context"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mysql/internal/conn"
	"github.com/rowlock/rowlock/mysql/internal/row"
)

// Look is driver.Liner's: one plain SELECT for the rows of all keys. Readers and slots, keys in a phase, and keys that are free cost one
// more each, for all of them together.
func (l *Table) Look(ctx context.Context, entries []driver.Entry) ([]driver.View, error) {
	views := make([]driver.View, len(entries))
	err := l.DB.StepAgain(ctx, l.DB.Acquires, func(c *conn.Conn) error {
		k := looks{Table: l, entries: entries, views: views}
		if err := k.all(ctx, c); err != nil {
			return err
		}
		for i, v := range views {
			if entries[i].ID != (driver.HoldID{}) && !v.Mine && v.Place == 0 && c.Left() {
				return conn.ErrLeft
			}
		}
		return nil
	})
	if err != nil {
		return nil, conn.Classify(l.What("look"), err)
	}
	return views, nil
}

// looks is one Look.
type looks struct {
	*Table
	entries []driver.Entry
	views   []driver.View

	rows   map[string]row.Row
	phases map[string]holders
	own    map[string]ShareRow  // by the hold IDs
	slots  map[string][]takenOf // that somebody has, of the keys of entries of slots
}

type takenOf struct {
	slot int
	left time.Duration
}

// which are the keys of the entries for which the condition holds, each once.
func (k *looks) which(holds func(e *driver.Entry) bool) (keys []string) {
	seen := make(map[string]bool)
	for i := range k.entries {
		if e := &k.entries[i]; !seen[e.Key] && holds(e) {
			seen[e.Key] = true
			keys = append(keys, e.Key)
		}
	}
	return keys
}

func (k *looks) all(ctx context.Context, c *conn.Conn) (err error) {
	clear(k.views)
	keys := k.which(func(*driver.Entry) bool { return true })
	if k.rows, err = k.Rows(ctx, c, len(keys), func(i int) string { return keys[i] }); err != nil {
		return err
	}
	if err = k.shares(ctx, c); err != nil {
		return err
	}
	var free []row.Row
	for i := range k.entries {
		e, v := &k.entries[i], &k.views[i]
		r, ok := k.rows[e.Key]
		if !ok || r.Corrupt != "" {
			v.Free = true // an acquire says what is wrong
			continue
		}
		k.see(e, &r, v)
		if v.Free {
			if h, ok := k.phases[e.Key]; ok {
				r = h.row
			}
			free = append(free, r)
		}
	}
	if len(free) == 0 {
		return nil
	}
	pinned, err := k.GuardedOf(ctx, c, free)
	if conn.Number(err) > 0 {
		return nil // the user may not lock rows, or a lock on the table stands in the way
	}
	for _, key := range pinned {
		for i := range k.entries {
			if k.entries[i].Key == key && k.views[i].Free && k.pins(&k.entries[i]) {
				k.views[i].Pinned = true
			}
		}
	}
	return err
}

// pins reports whether a guard of the last hold keeps the key from the entry: not from one that joins a phase.
func (k *looks) pins(e *driver.Entry) bool {
	return e.Mode == driver.Exclusive || !k.rows[e.Key].InPhase
}

// shares reads what the table of readers and slots says.
func (k *looks) shares(ctx context.Context, c *conn.Conn) (err error) {
	keys := k.which(func(e *driver.Entry) bool { return k.rows[e.Key].InPhase })
	if len(keys) == 0 {
		return nil
	}
	if k.phases, err = k.holdersOf(ctx, c, len(keys), func(i int) string { return keys[i] }); err != nil {
		return err
	}
	var mine []*driver.Entry
	for i := range k.entries {
		if e := &k.entries[i]; e.Mode != driver.Exclusive && k.rows[e.Key].InPhase {
			mine = append(mine, e)
		}
	}
	if len(mine) == 0 {
		return nil
	}
	t := conn.NewText(700 + 150*len(mine)).Part(k.shareFrom).Add(" WHERE s.name IN ")
	t.In(len(mine), func(i int) { t.Key(mine[i].Key) }).Add(" AND (s.expires_at>" + row.Now + " OR s.released_at IS NULL) AND (s." + aSlot + " OR (s.name,s.hold) IN ")
	t.In(len(mine), func(i int) { t.Add("(").Key(mine[i].Key).Add(",").Bytes(mine[i].ID[:]).Add(")") })
	found, err := conn.Query(ctx, c, 0, t.Add(")").String(), scanShare)
	if err != nil {
		return err
	}
	k.own, k.slots = make(map[string]ShareRow), make(map[string][]takenOf)
	for _, r := range found {
		if r.Live && r.Stands {
			k.own[r.Key+string(r.ID[:])] = r
		}
		if r.Slot < firstReader && r.Left > 0 {
			k.slots[r.Key] = append(k.slots[r.Key], takenOf{int(r.Slot), r.Left})
		}
	}
	return nil
}

// see fills the view of an entry.
func (k *looks) see(e *driver.Entry, r *row.Row, v *driver.View) {
	line := r.Line()
	v.Place, v.Standing, v.First = line.Place(e.ID), len(line), line.First(r.Now())
	age := func(since int64) time.Duration { return max(time.Duration(r.Now()-since)*time.Microsecond, 0) }
	h, shared := k.phases[e.Key]
	shared = shared && h.inPhase && h.row.ID == r.ID
	switch {
	case e.Mode == driver.Exclusive && !r.InPhase && r.Mine(e.ID) && r.Left > 0:
		v.Mine, v.Token, v.Stored, v.Left, v.Owner, v.Age = true, k.TokenOf(r), r.Token, r.Left, r.Owner, age(r.SinceMicros)
	case !r.InPhase && r.Left > 0:
		v.Left, v.Owner, v.Kept, v.Age = r.Left, r.Owner, !r.Live, age(r.SinceMicros)
	case !r.InPhase:
		v.Free = true
	case !shared: // the phase has ended since the row was read: a look that comes next tells
		v.Shared = true
	case e.Mode == driver.Exclusive:
		if v.Shared = true; h.live() == 0 {
			v.Free = true
		} else {
			v.Left, v.Owner, v.Age = h.left, h.owner, age(h.since)
		}
	default:
		v.Shared, v.Owner = h.live() > 0, h.owner
		if h.live() > 0 {
			v.Age = age(h.since)
		}
		if own, ok := k.own[e.Key+string(e.ID[:])]; ok && own.Left > 0 && own.Corrupt == "" {
			v.Mine, v.Token, v.Stored, v.Phase, v.Left, v.Owner = true, own.Token, own.Token, own.Phase, own.Left, own.Owner
			v.Age = age(own.SinceMicros)
			if e.Mode == driver.Slot {
				v.Slot = int(own.Slot)
			}
			return
		}
		if line.Before(e.ID).Exclusive() {
			return
		}
		v.Free = true
		if e.Mode == driver.Slot {
			v.Free, v.Left = k.freeSlot(e, line)
		}
	}
}

// freeSlot reports whether a slot is free that the entry may take, and else when one will be.
func (k *looks) freeSlot(e *driver.Entry, line row.Line) (free bool, left time.Duration) {
	from := firstSlot(line, e.ID)
	used := 0
	for _, t := range k.slots[e.Key] {
		if t.slot >= from && t.slot < e.Slots {
			if used++; left == 0 || t.left < left {
				left = t.left
			}
		}
	}
	if from+used < e.Slots {
		return true, 0
	}
	return false, left
}

// firstSlot is the first slot that a request may take: none below the number of one that stands before it.
func firstSlot(line row.Line, id driver.HoldID) (first int) {
	for _, e := range line.Before(id) {
		if e.Mode == driver.Slot {
			first = max(first, e.Slots)
		}
	}
	return first
}
