package key

import (
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/call"
)

// Backoff says how long to wait before the next probe of a key that another has: a short
// time right after a refusal, then longer, never past the end of the hold that is known. It
// says also how long to wait after an attempt or a probe that failed.
type Backoff struct {
	Pinned bool          // the last refusal was Pinned
	step   int           // of the times between probes
	left   time.Duration // until the key is free by itself, if known
	errs   int
	silent call.Silence
}

const (
	// The time between two probes of a key, from the shortest to the longest.
	FirstProbe = 2 * time.Millisecond
	LastProbe  = 70 * time.Millisecond

	// pushProbe is the time between two probes beside an open stream, which tells of releases.
	pushProbe = time.Second

	// outrunStep is the step after an attempt for a free key that another client got first:
	// its hold has only just begun.
	outrunStep = 3

	// lineProbe is the longest time between two looks of a client that is not the first in the
	// line. So often it renews its ticket, which tells the same.
	lineProbe = driver.TicketTime / 3

	// The time before what failed is tried again, from the shortest to the longest.
	firstRetry = 10 * time.Millisecond
	lastRetry  = time.Second
)

// held notes what a refusal or a probe said.
func (b *Backoff) held(left time.Duration, pinned bool) {
	b.left, b.Pinned, b.errs, b.silent = left, pinned, 0, call.Silence{}
}

// behind is the time to the next look of a client before which others stand in the line: the more
// they are, the longer. An open stream and renewals of the ticket tell of its turn too.
func (b *Backoff) behind(ahead int, push bool) (time.Duration, Jitter) {
	left := b.left
	b.left = 0
	d, jitter := b.next(push)
	if !push {
		d = min(d*time.Duration(1+min(ahead, 99)), lineProbe)
	}
	if b.left = left; left > 0 && left < d {
		return left, NoJitter
	}
	return d, jitter
}

func (b *Backoff) outrun() { b.step = outrunStep }

// slow goes on with the longest time between probes.
func (b *Backoff) slow() {
	for FirstProbe<<b.step < LastProbe {
		b.step++
	}
}

// next is the time to the next probe.
func (b *Backoff) next(push bool) (time.Duration, Jitter) {
	d := min(FirstProbe<<b.step, LastProbe)
	if d < LastProbe {
		b.step++
	}
	switch {
	case b.Pinned:
		d = LastProbe
	case push:
		d = pushProbe
	}
	if b.left > 0 && b.left < d {
		return b.left, NoJitter
	}
	return d, JitterThird
}

// failed is the time after an attempt or a probe without an answer. What a dead connection
// swallowed goes again as call.Silence says.
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
