package workload

import (
	"context"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/dev/verify/history"
	"github.com/rowlock/rowlock/dev/verify/timed"
)

// fairSlots is the n of all who ask for a slot of a key in order.
const fairSlots = 2

// FairKeys are the keys of a round whose callers all use Fair: the first is wanted
// exclusively, the second by slots and exclusively.
func FairKeys(round string) []string { return []string{round + "/fair", round + "/fairslots"} }

// fairly takes a key in the order of the line, and uses it. Most holds are so long that
// programs wait for each other.
func (w *worker) fairly(ctx context.Context) {
	key, m := w.space.fair[0], mode{fair: true}
	if w.chance(40) {
		key = w.space.fair[1]
		if w.hasModes() && w.chance(80) {
			m.mode, m.slots = history.Slot, fairSlots
		}
	}
	guarded := w.name != Mongo || w.chance(60)
	longest := w.task.TTL
	if w.chance(10) {
		longest = 2 * w.task.TTL
	}
	opts := w.terms(guarded)
	alone := w.chance(5)
	if alone {
		opts = append(opts, rowlock.NoRenew())
	}
	patience := w.patience()
	if w.chance(60) { // long enough to see whether its turn comes
		patience = 6 * w.task.TTL
	}
	wait, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if h := w.takeAs(wait, key, m, w.chance(10), opts...); h != nil {
		h.use(ctx, w.upTo(longest), guarded)
		h.end(ctx, alone)
	}
	timed.Rest(ctx, w.upTo(w.task.TTL/10))
}
