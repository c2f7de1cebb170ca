package workload

import (
	"context"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/dev/verify/history"
	"github.com/rowlock/rowlock/dev/verify/timed"
	"github.com/rowlock/rowlock/driver"
)

// mode is how a key is wanted.
type mode struct {
	mode  history.Mode
	slots int
	fair  bool
}

func (m mode) options() []rowlock.Option {
	switch m.mode {
	case history.Shared:
		return []rowlock.Option{rowlock.Shared()}
	case history.Slot:
		return []rowlock.Option{rowlock.Slots(m.slots)}
	}
	return nil
}

// hasModes reports whether the space's store has readers and slots.
func (s *space) hasModes() bool {
	has := s.store().Limits().Modes
	return has.Has(driver.Shared) && has.Has(driver.Slot)
}

// draw draws a mode: of so many of a hundred a reader, of so many a slot, whose callers do not
// agree on their number.
func (w *worker) draw(readers, slots int) mode {
	if !w.hasModes() {
		return mode{}
	}
	switch n := w.rand.IntN(100); {
	case n < readers:
		return mode{mode: history.Shared}
	case n < readers+slots:
		return mode{mode: history.Slot, slots: 2 + w.rand.IntN(MostSlots-1)}
	}
	return mode{}
}

// mixed takes a key that all want in several modes, and uses it.
func (w *worker) mixed(ctx context.Context) {
	key, m := w.space.modes[0], mode{}
	switch w.rand.IntN(20) {
	case 0: // beside those who want it as one of several
		key, m = w.space.groups[w.rand.IntN(len(w.space.groups))], w.draw(50, 20)
	case 1, 2, 3, 4, 5, 6, 7, 8, 9:
		key, m = w.space.modes[1], w.draw(20, 65)
	default:
		m = w.draw(75, 0)
	}
	guarded := w.name != Mongo || w.chance(60)
	longest := w.task.TTL / 8
	if w.chance(10) {
		longest = 2 * w.task.TTL
	}
	opts := w.terms(guarded)
	if m.mode == history.Slot && w.chance(8) {
		opts = append(opts, rowlock.MinHold(w.upTo(w.task.TTL/2)))
	}
	alone := w.chance(15)
	if alone {
		opts = append(opts, rowlock.NoRenew())
	}
	patience := w.patience()
	if w.chance(30) { // long enough to see whether its turn comes
		patience = 6 * w.task.TTL
	}
	wait, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if h := w.takeAs(wait, key, m, w.chance(20), opts...); h != nil {
		h.use(ctx, w.upTo(longest), guarded)
		h.end(ctx, alone)
	}
	timed.Rest(ctx, w.upTo(w.task.TTL/50))
}

// terms are options of an acquire that have nothing to do with its mode.
func (w *worker) terms(guarded bool) (opts []rowlock.Option) {
	if w.name == Mongo && guarded {
		opts = append(opts, rowlock.Guarded())
	}
	if w.chance(5) {
		opts = append(opts, rowlock.MaxHold(w.task.TTL+w.upTo(w.task.TTL)))
	}
	return opts
}
