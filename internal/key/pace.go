package key

import (
	"time"

	"github.com/rowlock/rowlock/internal/call"
)

// Pace says how long to wait before the next look at a key that another has: a short
// time right after a refusal, then longer, never past the end of the hold that is known.
type Pace struct {
	Pinned bool          // the last refusal was Pinned
	step   int           // of the times between looks
	left   time.Duration // until the key is free by itself, if known
	errs   int
	silent call.Silence
}

const (
	FirstProbe = 2 * time.Millisecond
	LastProbe  = 70 * time.Millisecond

	// pushProbe is the pace beside a live stream, which tells of releases.
	pushProbe = time.Second

	// outrunStep is where the pace goes on when another client was faster: it has only
	// just begun.
	outrunStep = 3

	firstRetry = 10 * time.Millisecond
	lastRetry  = time.Second
)

// held notes what a refusal or a look said.
func (p *Pace) held(left time.Duration, pinned bool) {
	p.left, p.Pinned, p.errs, p.silent = left, pinned, 0, call.Silence{}
}

func (p *Pace) outrun() { p.step = outrunStep }

// next is the time to the next look.
func (p *Pace) next(push bool) (time.Duration, Spread) {
	d := min(FirstProbe<<p.step, LastProbe)
	if d < LastProbe {
		p.step++
	}
	switch {
	case p.Pinned:
		d = LastProbe
	case push:
		d = pushProbe
	}
	if p.left > 0 && p.left < d {
		return p.left, Exact
	}
	return d, Third
}

// failed is the time after an attempt or a look without an answer. What a dead connection
// swallowed goes again as call.Silence says.
func (p *Pace) failed(silent bool, took time.Duration) time.Duration {
	if silent {
		return p.silent.Pause(took)
	}
	d := min(firstRetry<<p.errs, lastRetry)
	if d < lastRetry {
		p.errs++
	}
	return d
}
