package workload

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rowlock/rowlock/driver"
)

// Bugs are deliberate ones, to see that a round finds them.
var Bugs = []string{bugTTL, bugRelease, bugMark, bugSlot, bugShare, bugOrder, bugAway, bugHeld}

const (
	bugTTL     = "ttl"     // the database grants half the time that the client counts on
	bugRelease = "release" // a release ends whatever hold the key has
	bugMark    = "mark"    // a run is marked by another name each time
	bugSlot    = "slot"    // of 2n places two have each number
	bugShare   = "share"   // who asks for a key of readers exclusively is one of them
	bugOrder   = "order"   // who looks at the line loses its place now and then, and stands at the end
	bugAway    = "away"    // after a second acquires wait for an answer that does not come
	bugHeld    = "held"    // one acquire in a hundred is told that another has the key
)

// broken puts a bug before a store.
func broken(bug string, s driver.Store) (driver.Store, error) {
	switch bug {
	case "", bugMark: // that is of the worker
		return s, nil
	case bugOrder:
		return &loser{base{s}}, nil
	case bugSlot:
		return &moreSlots{base: base{s}, slots: make(map[driver.HoldID]int)}, nil
	case bugShare:
		return &noWriter{base: base{s}, ids: make(map[driver.HoldID]bool)}, nil
	case bugAway:
		return &away{base{s}, time.Now().Add(time.Second)}, nil
	case bugHeld:
		return &refuser{base{s}}, nil
	case bugTTL:
		return &halfTTL{base{s}}, nil
	case bugRelease:
		f, ok := s.(driver.Forcer)
		if !ok {
			return nil, fmt.Errorf("a %T cannot force a release", s)
		}
		return &anyRelease{base{s}, f}, nil
	}
	return nil, fmt.Errorf("no bug %q: use one of %s", bug, strings.Join(Bugs, ", "))
}

type away struct {
	base
	from time.Time
}

func (s *away) Acquire(ctx context.Context, reqs []driver.Request) ([]driver.Result, error) {
	if time.Now().After(s.from) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return s.Store.Acquire(ctx, reqs)
}

type refuser struct{ base }

func (s *refuser) Acquire(ctx context.Context, reqs []driver.Request) ([]driver.Result, error) {
	if rand.IntN(100) > 0 {
		return s.Store.Acquire(ctx, reqs)
	}
	list := make([]driver.Result, len(reqs))
	for i, r := range reqs {
		list[i] = driver.Result{Status: driver.Held, Owner: "another", Left: r.TTL / 2}
	}
	return list, nil
}

type loser struct{ base }

func (s *loser) Look(ctx context.Context, entries []driver.Entry) ([]driver.View, error) {
	views, err := s.base.Look(ctx, entries)
	for i, v := range views {
		if v.Place > 0 && rand.IntN(2) == 0 {
			gone := []driver.Hold{{Key: entries[i].Key, ID: entries[i].ID, Mode: entries[i].Mode, Slot: -1, Undo: true}}
			_, _ = s.Store.Release(ctx, gone)
			views[i].Place = 0
		}
	}
	return views, err
}

type halfTTL struct{ base }

func (s *halfTTL) Acquire(ctx context.Context, reqs []driver.Request) ([]driver.Result, error) {
	for i := range reqs {
		reqs[i].TTL /= 2
	}
	return s.Store.Acquire(ctx, reqs)
}

type anyRelease struct {
	base
	force driver.Forcer
}

func (s *anyRelease) Release(ctx context.Context, holds []driver.Hold) ([]driver.Result, error) {
	list := make([]driver.Result, len(holds))
	for i, h := range holds {
		if _, err := s.force.ForceRelease(ctx, h.Key); err != nil {
			list[i].Err = err
		} else {
			list[i].Status = driver.Released
		}
	}
	return list, nil
}

type moreSlots struct {
	base
	mu    sync.Mutex
	slots map[driver.HoldID]int // the numbers that the store gave and the client does not know
}

func (s *moreSlots) Acquire(ctx context.Context, reqs []driver.Request) ([]driver.Result, error) {
	reqs = slices.Clone(reqs)
	for i := range reqs {
		if r := &reqs[i]; r.Mode == driver.Slot {
			r.Slots *= 2
		}
	}
	list, err := s.Store.Acquire(ctx, reqs)
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range list {
		if r := reqs[i]; r.Mode == driver.Slot && list[i].Status == driver.Granted {
			s.slots[r.ID] = list[i].Slot
			list[i].Slot %= r.Slots / 2
		}
	}
	return list, err
}

func (s *moreSlots) Renew(ctx context.Context, holds []driver.Hold) ([]driver.Result, error) {
	return s.Store.Renew(ctx, s.given(holds))
}

func (s *moreSlots) Release(ctx context.Context, holds []driver.Hold) ([]driver.Result, error) {
	return s.Store.Release(ctx, s.given(holds))
}

// given is holds with the numbers that the store gave.
func (s *moreSlots) given(holds []driver.Hold) []driver.Hold {
	s.mu.Lock()
	defer s.mu.Unlock()
	holds = slices.Clone(holds)
	for i := range holds {
		if slot, ok := s.slots[holds[i].ID]; ok {
			holds[i].Slot = slot
		}
	}
	return holds
}

type noWriter struct {
	base
	mu  sync.Mutex
	ids map[driver.HoldID]bool // of those who are readers without knowing it
}

func (s *noWriter) Acquire(ctx context.Context, reqs []driver.Request) ([]driver.Result, error) {
	for i := range reqs {
		if r := &reqs[i]; r.Mode == driver.Exclusive && strings.HasSuffix(r.Key, "/readers") {
			s.mu.Lock()
			s.ids[r.ID] = true
			s.mu.Unlock()
			r.Mode, r.Keep = driver.Shared, 0
		}
	}
	return s.Store.Acquire(ctx, reqs)
}

func (s *noWriter) Renew(ctx context.Context, holds []driver.Hold) ([]driver.Result, error) {
	return s.Store.Renew(ctx, s.readers(holds))
}

func (s *noWriter) Release(ctx context.Context, holds []driver.Hold) ([]driver.Result, error) {
	return s.Store.Release(ctx, s.readers(holds))
}

func (s *noWriter) readers(holds []driver.Hold) []driver.Hold {
	s.mu.Lock()
	defer s.mu.Unlock()
	holds = slices.Clone(holds)
	for i := range holds {
		if s.ids[holds[i].ID] {
			holds[i].Mode = driver.Shared
		}
	}
	return holds
}

// base is the store before which a bug is put, with the ways to wait that it has. Its other abilities are hidden.
type base struct{ driver.Store }

func (b base) Unwrap() driver.Store { return b.Store }

func (b base) Limits() driver.Limits {
	l := b.Store.Limits()
	l.Turns = false
	return l
}

// Look is called where the store has lines.
func (b base) Look(ctx context.Context, entries []driver.Entry) ([]driver.View, error) {
	return b.Store.(driver.Liner).Look(ctx, entries)
}

// AcquireWait is called where the store has a queue.
func (b base) AcquireWait(ctx context.Context, req driver.Request, begin func()) (driver.Result, error) {
	return b.Store.(driver.Queuer).AcquireWait(ctx, req, begin)
}
