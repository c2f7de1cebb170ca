package batch

import "time"

// delay is how long a batch waits for the calls of others before it leaves, as the
// group commit of a database does.
//
// Callers whose batch was answered come with their next calls one right after the
// other. If the first left at once its batch would have one call, and so the second; soon
// every batch has a few calls and the rest must wait for one to come back: that costs
// the server more work for each call, and on a slow disk the callers twice the time. So
// the first waits for the others, until all are here, or for a small part of the time
// that a batch takes. It does so only for more callers than there can be batches: fewer
// callers have a batch each, and none waits for one.
//
// Guarded by Batcher.mu.
type delay struct {
	calls   int           // waiting or on their way
	peak    int           // of calls, in this period
	most    int           // the same, or that of the period before
	until   time.Duration // end of this period
	average time.Duration // of the time that a batch takes
	full    chan struct{} // not nil: a batch waits for the others; gets a value when all wait
}

const (
	// period is how long calls are counted. After two, callers that have gone are forgotten.
	period = 100 * time.Millisecond

	// delayPart is how small a part of a batch's time the wait is at most.
	delayPart = 16

	// delayMost bounds the wait: a blocked key makes batches long. For less than
	// delayLeast nobody waits: timers are coarse, and such batches cost little.
	delayMost  = time.Millisecond
	delayLeast = 20 * time.Microsecond
)

// come notes a call, the last of so many that wait.
func (d *delay) come(now time.Duration, waiting int) {
	d.calls++
	if now >= d.until+period {
		d.peak = 0 // that was long ago
	}
	if now >= d.until {
		d.most, d.peak, d.until = d.peak, 0, now+period
	}
	d.peak = max(d.peak, d.calls)
	d.most = max(d.most, d.peak)
	if d.full != nil && waiting == d.most {
		select {
		case d.full <- struct{}{}:
		default: // that was so before, and a batch took some of them
		}
	}
}

// leave notes that n calls were answered, or withdrawn.
func (d *delay) leave(n int) { d.calls -= n }

// took notes how long a batch took.
func (d *delay) took(t time.Duration) { d.average += (t - d.average) / 8 }

// wait begins the wait of a batch for the calls of others, if there are more of them
// than batches. waiting are here already, as all of a group are.
func (d *delay) wait(batches, waiting int) (full chan struct{}, atMost time.Duration) {
	atMost = min(d.average/delayPart, delayMost)
	if d.most <= batches || d.most <= waiting || atMost < delayLeast {
		return nil, 0
	}
	d.full = make(chan struct{}, 1)
	return d.full, atMost
}
