// Package period has the times for locks of jobs that schedulers start in many programs: how long a lock is kept at
// least, because clocks differ, and how long at most a program that dies takes it with it.
package period

import (
	"time"

	"github.com/rowlock/rowlock"
)

const (
	// minHold is more than clocks that are kept by NTP differ, and less than any
	// sensible period of a job that many programs share.
	minHold = 500 * time.Millisecond

	// ttl is the shortest for which a live holder's lease is promised to last
	// (docs/guarantees.md, P26): what a dead program takes with it is what counts here.
	ttl = 3 * time.Second

	// shortest is SelectForUpdate's smallest TTL, so that every store takes it.
	shortest = time.Second

	// longest bounds both, so that a program that is killed in the job of a day does not
	// keep it for a day.
	longest = 30 * time.Second
)

// Before puts what holds without options before them.
func Before(opts []rowlock.Option) []rowlock.Option {
	return append([]rowlock.Option{rowlock.MinHold(minHold), rowlock.TTL(ttl)}, opts...)
}

// Option sets the TTL and the MinHold by the shortest time between two runs of a job: both are shorter than that, so that the
// next run is not lost to a program that died at the beginning of the one before. One
// below a millisecond is refused when the option is used.
func Option(d time.Duration) rowlock.Option {
	if d < time.Millisecond { // not positive, or a number without a unit
		return rowlock.TTL(d)
	}
	return both(rowlock.TTL(min(max(d/5*4, shortest), longest)), rowlock.MinHold(min(d/2, longest)))
}

// both is one option that sets what two do. (What S stands for has no name outside of
// its package.)
func both[O ~func(S), S any](one, other O) O { return func(s S) { one(s); other(s) } }
