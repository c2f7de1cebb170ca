// Package guards has what the guards of all stores do alike: the leases that one is for, the holds that it names, what the
// state of a row means to a lease that was guarded, and the IDs of runs.
package guards

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/order"
)

// Leases are those that one guard is for. A run is one of the first one's key.
type Leases []*rowlock.Lease

// LeasesOf are the leases that a guard was given.
func LeasesOf(lease *rowlock.Lease, more []*rowlock.Lease) Leases {
	if len(more) == 0 {
		return Leases{lease}
	}
	return append(Leases{lease}, more...)
}

// Err is what ended the first of them that has ended; nil: all are held. Nil leases are
// left out.
func (ls Leases) Err() error {
	for _, l := range ls {
		if l == nil {
			continue
		}
		if err := l.Err(); err != nil {
			return err
		}
	}
	return nil
}

// Context is a child of ctx that ends with each of them. Nil leases are left out.
func (ls Leases) Context(ctx context.Context) context.Context {
	for _, l := range ls {
		if l != nil {
			ctx = l.Context(ctx)
		}
	}
	return ctx
}

// Check is an error that matches driver.ErrInvalid where one of them is nil.
func (ls Leases) Check() error {
	for i, l := range ls {
		switch {
		case l != nil:
		case len(ls) == 1:
			return fmt.Errorf("guard: %w: the lease is nil", driver.ErrInvalid)
		default:
			return fmt.Errorf("guard: %w: lease %d of %d is nil", driver.ErrInvalid, i+1, len(ls))
		}
	}
	return nil
}

// Begin is rowlock.BeginGuard for each of them. After an error some may be marked, which
// costs them a handoff and no more.
func (ls Leases) Begin(s driver.Store) (Holds, error) {
	if err := ls.Check(); err != nil {
		return Holds{}, err
	}
	var hs Holds
	for i, l := range ls {
		h, err := rowlock.BeginGuard(l, s)
		if err != nil {
			return Holds{}, err
		}
		if i == 0 {
			hs.First = h
		}
		if !slices.ContainsFunc(hs.All, func(o driver.Hold) bool { return o.ID == h.ID }) { // a view, or given twice
			hs.All = append(hs.All, h)
		}
	}
	slices.SortFunc(hs.All, func(a, b driver.Hold) int {
		return cmp.Or(order.ByBytes(a.Key, b.Key), cmp.Compare(a.Mode, b.Mode), cmp.Compare(a.Slot, b.Slot))
	})
	return hs, nil
}

// Holds are what a guard names.
type Holds struct {
	First driver.Hold   // of the first lease
	All   []driver.Hold // in the order of their keys, each once; a key may have a reader's and slots' hold
}

// Keys are those of All; one that several have is there as often.
func (hs Holds) Keys() []string {
	keys := make([]string, len(hs.All))
	for i, h := range hs.All {
		keys[i] = h.Key
	}
	return keys
}
