package rowlock

import (
	"fmt"

	"github.com/rowlock/rowlock/driver"
)

// For authors of stores: BeginGuard is the first step of a guard. It says that
// the lease is about to be named in a transaction, and returns its hold. From then
// on the lease is never handed off in memory: its release goes to the database,
// where the next grant meets the transaction, however long that stays open. So it
// comes before the guard's statement leaves.
//
// s is the Store that is to guard. A lease that another Store granted is an error
// that matches ErrInvalid; a lease that ended, ErrReleased or ErrLost. Nothing was
// marked then.
func BeginGuard(l *Lease, s driver.Store) (driver.Hold, error) {
	if l == nil {
		return driver.Hold{}, fmt.Errorf("guard: %w", errNilLease)
	}
	if !wraps(l.c.store.Driver(), s) {
		return driver.Hold{}, fmt.Errorf("guard %q: %w: the lease was granted by another Store (%T): use the one that its Client was made with", l.Key(), ErrInvalid, l.c.store.Driver())
	}
	if err := l.Err(); err != nil { // looks at the clock
		return driver.Hold{}, fmt.Errorf("guard %q: %w", l.Key(), err)
	}
	h, ok := l.g.BeginGuard((*user)(l.first()))
	if !ok {
		return driver.Hold{}, fmt.Errorf("guard %q: %w", l.Key(), l.Err())
	}
	return h, nil
}

// wraps reports whether the Store of a client is s, or wraps it and says so by a method
// Unwrap.
func wraps(of, s driver.Store) bool {
	for of != s {
		w, ok := of.(interface{ Unwrap() driver.Store })
		if !ok {
			return false
		}
		of = w.Unwrap()
	}
	return true
}
