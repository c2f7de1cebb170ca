package locktest

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
)

// room has the leases of a key that are held now, as their holders say, and checks whether
// they may be beside each other (P16, P17) and the order of their tokens (P20). Holders enter
// after their grant and leave before their release.
type room struct {
	mu     sync.Mutex
	inside map[*rowlock.Lease]member
	phase  int64         // the last reader's token
	last   map[int]int64 // the last token of each slot; of writers under -1
	top    int64         // the largest token
	most   int           // readers and slots at once
	grants [3]int        // of each mode
}

type member struct {
	mode driver.Mode
	n    int // of slots
}

// options are those of a request of this kind.
func (m member) options() []rowlock.Option {
	switch m.mode {
	case driver.Shared:
		return []rowlock.Option{rowlock.Shared()}
	case driver.Slot:
		return []rowlock.Option{rowlock.Slots(m.n)}
	}
	return nil
}

func newRoom() *room {
	return &room{inside: make(map[*rowlock.Lease]member), last: make(map[int]int64)}
}

// enter notes a lease that is held.
func (r *room) enter(t testing.TB, l *rowlock.Lease, m member) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if l.Err() != nil {
		return
	}
	token, slot := l.Token(), l.Slot()
	for other, om := range r.inside {
		switch {
		case other.Err() != nil:
		case m.mode == driver.Exclusive || om.mode == driver.Exclusive:
			Breach(t, "P16", "a lease of mode %v (token %d) beside one of mode %v (token %d)", m.mode, token, om.mode, other.Token())
		case m.mode == driver.Slot && om.mode == driver.Slot && slot == other.Slot():
			Breach(t, "P17", "two leases have slot %d", slot)
		case m.mode == driver.Shared && om.mode == driver.Shared && token != other.Token():
			t.Errorf("P20: two readers have tokens %d and %d", token, other.Token())
		}
	}
	switch m.mode {
	case driver.Exclusive:
		if token <= r.top {
			Breach(t, "P20", "a writer has token %d after %d", token, r.top)
		}
		r.last[-1] = token
	case driver.Shared:
		if token <= r.last[-1] || token < r.phase {
			Breach(t, "P20", "a reader has token %d after a writer's %d and a reader's %d", token, r.last[-1], r.phase)
		}
		r.phase = token
	case driver.Slot:
		if slot < 0 || slot >= m.n {
			t.Errorf("P17: slot %d of %d", slot, m.n)
		}
		if token <= r.last[-1] || token <= r.last[slot] {
			Breach(t, "P20", "slot %d has token %d after a writer's %d and its own %d", slot, token, r.last[-1], r.last[slot])
		}
		r.last[slot] = token
	}
	if m.mode != driver.Slot && slot != -1 {
		t.Errorf("a lease of mode %v has slot %d", m.mode, slot)
	}
	r.top = max(r.top, token)
	r.inside[l] = m
	r.grants[m.mode]++
	if m.mode != driver.Exclusive {
		r.most = max(r.most, len(r.inside))
	}
}

func (r *room) leave(l *rowlock.Lease) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.inside, l)
}

// visit gets a lease, is inside for a while, and releases it.
func (r *room) visit(t testing.TB, c rowlock.Locker, key string, m member, hold time.Duration, more ...rowlock.Option) error {
	lease, err := c.Acquire(soon(t), key, append(m.options(), more...)...)
	if err != nil {
		return err
	}
	r.enter(t, lease, m)
	time.Sleep(hold)
	r.leave(lease)
	return lease.Release(context.Background())
}

// modeSpan is the span of a lease of some mode.
type modeSpan struct {
	span
	mode driver.Mode
	slot int
}

// checkModeSpans checks that spans of leases that exclude each other do not overlap, and are
// in the order of their tokens.
func checkModeSpans(t testing.TB, spans []modeSpan) {
	t.Helper()
	spans = slices.DeleteFunc(spans, func(s modeSpan) bool { return s.first == 0 })
	if len(spans) < fewestSpans {
		t.Fatalf("still not: more than %d leases were seen in this time", len(spans))
	}
	slices.SortFunc(spans, func(a, b modeSpan) int { return cmp.Compare(a.first, b.first) })
	for i, b := range spans {
		for _, a := range spans[:i] {
			exclude := a.mode == driver.Exclusive || b.mode == driver.Exclusive || a.mode == driver.Slot && b.mode == driver.Slot && a.slot == b.slot
			if !exclude {
				continue
			}
			if b.first < a.last {
				Breach(t, "P16", "token %d of mode %v was trusted for %v after token %d of mode %v was granted",
					a.token, a.mode, time.Duration(a.last-b.first), b.token, b.mode)
			}
			if b.token <= a.token {
				Breach(t, "P20", "token %d of mode %v was granted after token %d of mode %v", b.token, b.mode, a.token, a.mode)
			}
		}
	}
}
