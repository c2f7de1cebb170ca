// Package clock is the clock by which a client trusts its leases: monotonic, and
// it goes on while the machine sleeps, because the database's clock does too.
package clock

import "time"

var start = time.Now()

// sinceStart is Go's own monotonic clock. On Linux it stops while the machine
// sleeps; elsewhere that depends on the system.
func sinceStart() time.Duration { return time.Since(start) }
