package rowlock

import "time"

// crowd makes the calls of many callers travel together.
//
// Callers whose batch was answered come with their next calls one right after the
// other. If the first left at once it would leave alone, and so would the second;
// soon every flight of the lane has a few calls on board and the rest must wait for
// one to come back: that costs the server more work for each call, and on a slow
// disk the callers twice the time. So where there is a crowd the first waits for the
// others, until all are here, or for a small part of the time that a flight takes.
// It is a crowd if it is larger than the number of flights: fewer callers have a
// flight each, and none waits for one.
//
// Guarded by lane.mu.
type crowd struct {
	calls int           // in the lane, waiting or on their way
	peak  int           // of calls, in this period
	most  int           // the same, or that of the period before
	until time.Duration // end of this period
	pace  time.Duration // how long a flight takes, usually
	full  chan struct{} // not nil: a flight waits for the others; gets a value when all wait
}

const (
	// crowdFor is how long a period is. After two a crowd that has gone is forgotten.
	crowdFor = 100 * time.Millisecond

	// gatherPart is how small a part of a flight's time the wait is at most.
	gatherPart = 16

	// gatherMost bounds the wait: a blocked key makes flights long. For less than
	// gatherLeast nobody waits: timers are coarse, and such flights cost little.
	gatherMost  = time.Millisecond
	gatherLeast = 20 * time.Microsecond
)

// come notes a call, the last of so many that wait.
func (c *crowd) come(now time.Duration, waiting int) {
	c.calls++
	if now >= c.until+crowdFor {
		c.peak = 0 // that was long ago
	}
	if now >= c.until {
		c.most, c.peak, c.until = c.peak, 0, now+crowdFor
	}
	c.peak = max(c.peak, c.calls)
	c.most = max(c.most, c.peak)
	if c.full != nil && waiting == c.most {
		select {
		case c.full <- struct{}{}:
		default: // that was so before, and a flight that landed took some with it
		}
	}
}

// leave notes that n calls were answered.
func (c *crowd) leave(n int) { c.calls -= n }

// took notes how long a flight took.
func (c *crowd) took(d time.Duration) { c.pace += (d - c.pace) / 8 }

// wait begins the wait of a flight for the others, if there is a crowd to wait for.
func (c *crowd) wait() (full chan struct{}, atMost time.Duration) {
	atMost = min(c.pace/gatherPart, gatherMost)
	if c.most <= maxFlights || atMost < gatherLeast {
		return nil, 0
	}
	c.full = make(chan struct{}, 1)
	return c.full, atMost
}
