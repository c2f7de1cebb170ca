// Package unit finds durations that were written as a number without a unit, and so are some
// nanoseconds.
package unit

import (
	"fmt"
	"time"
)

// Least is the shortest duration that can be meant, where nothing says more.
const Least = time.Millisecond

// Check is what is wrong with a duration above 0 and below least; nil: nothing. what names it.
func Check(what string, d, least time.Duration) error {
	if d <= 0 || d >= least {
		return nil
	}
	return fmt.Errorf("%s %v: use at least %v; a number without a unit is nanoseconds: write %d*time.Second, for example", what, d, least, int64(d))
}
