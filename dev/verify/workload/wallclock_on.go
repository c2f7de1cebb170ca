//go:build wallclock

package workload

import (
	"sync/atomic"
	"time"
	_ "unsafe" // for go:linkname
)

// wallClock: this program can be told to have a wrong wall clock. It is built with a
// time.Now of its own: see command wallclock.
const wallClock = true

//go:linkname wallShift time.wallShift
var wallShift int64

func stepWallClock(d time.Duration) { atomic.StoreInt64(&wallShift, int64(d/time.Second)) }
