// Package repeat has the pauses between repeats of a call.
package repeat

import (
	"context"
	"time"
)

// Silence is the backoff of the repeats of one call. A connection that gives no byte while the
// server answers on a new one is dead, as a firewall leaves it that has forgotten it.
// The Store finds out, closes it, and says so by driver.Error.Silent. That is no answer
// of the database, so no caller gets it: what was sent is sent again at once. An acquire
// gets a new hold ID and the old one is undone, because a firewall may also have swallowed
// the reply only; a renewal, a release or an undo names its hold, and can be repeated as it
// is.
type Silence struct {
	quick int // in a row
}

const (
	// silentAtLeast is how long a Store waits for a byte at least: one that was silent
	// for so long has delayed its repeat by that.
	silentAtLeast = 100 * time.Millisecond

	// The pauses of repeats that come sooner, after the first.
	firstPause = 10 * time.Millisecond
	lastPause  = time.Second
)

// Pause is how long to wait before a call is repeated that was silent after took.
func (s *Silence) Pause(took time.Duration) time.Duration {
	if took >= silentAtLeast {
		s.quick = 0
		return 0
	}
	s.quick++
	if s.quick == 1 {
		return 0
	}
	return min(firstPause<<min(s.quick-2, 10), lastPause)
}

// Sleep waits for d, or until ctx ends.
func Sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
