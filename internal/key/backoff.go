package key

import (
	"time"

	"github.com/rowlock/rowlock/internal/repeat"
)

// Backoff says how long to wait after an attempt or a probe that failed.
type Backoff struct {
	errs   int
	silent repeat.Silence
}

// The time before what failed is tried again, from the shortest to the longest.
const (
	firstRetry = 10 * time.Millisecond
	lastRetry  = time.Second
)

// failed is the time after an attempt or a probe without an answer. What a dead connection
// swallowed goes again as repeat.Silence says.
func (b *Backoff) failed(silent bool, took time.Duration) time.Duration {
	if silent {
		return b.silent.Pause(took)
	}
	d := min(firstRetry<<b.errs, lastRetry)
	if d < lastRetry {
		b.errs++
	}
	return d
}
