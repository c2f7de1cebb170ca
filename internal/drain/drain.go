// Package drain waits for queues whose items user code takes, and which it may block.
package drain

import (
	"context"
	"time"
)

// Wait waits until the queue is empty, or ctx ends. User code that takes longer than patience for one item is not waited
// for: it may be waiting for the caller. state returns how many items were taken out since the queue was made, and what
// is closed when none is left; nil: none is.
func Wait(ctx context.Context, patience time.Duration, state func() (empty <-chan struct{}, taken uint64)) {
	tick := time.NewTicker(patience)
	defer tick.Stop()
	for first, before := true, uint64(0); ; first = false {
		empty, taken := state()
		if empty == nil || !first && taken == before {
			return
		}
		before = taken
		select {
		case <-empty:
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
