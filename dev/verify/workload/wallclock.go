//go:build !wallclock

package workload

import "time"

// wallClock: this program can be told to have a wrong wall clock.
const wallClock = false

func stepWallClock(time.Duration) {}
