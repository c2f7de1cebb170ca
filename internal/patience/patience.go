// Package patience has how long a store waits for others' transactions before it answers.
package patience

import (
	"time"

	"github.com/rowlock/rowlock/driver"
)

// OfRenewals is for how long a Store waits at most before it answers renewals, where those which have been
// answered wait for the others: a quarter of the TTL, so that there is time for another try.
func OfRenewals(holds []driver.Hold) time.Duration {
	patience := 50 * time.Millisecond
	for i := range holds {
		patience = max(patience, holds[i].TTL/4)
	}
	return patience
}
