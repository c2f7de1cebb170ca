package guarded

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/guards"
)

// guardOf names a guard in an error.
func guardOf(hs guards.Holds) string {
	if more := len(hs.All) - 1; more > 0 {
		return fmt.Sprintf("guard %q and %d more", hs.First.Key, more)
	}
	return fmt.Sprintf("guard %q", hs.First.Key)
}

// named puts the operation before an error; nil stays nil.
func named(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

// orEnded prefers what a lease says of its end to what its row looks like then, and
// to what came of a statement or a wait that its end cut off.
func orEnded(leases guards.Leases, err error) error {
	for _, said := range []error{driver.ErrInvalid, driver.ErrNotSupported, driver.ErrSchema, driver.ErrAlreadyRan} {
		if errors.Is(err, said) {
			return err
		}
	}
	if err == nil {
		return nil
	}
	return cmp.Or(leases.Err(), err)
}

// wrap names the operation and the key; nil stays nil.
func wrap(what, key string, err error) error { return named(fmt.Sprintf("%s %q", what, key), err) }

func wrapRun(run, key string, err error) error {
	return wrap(fmt.Sprintf("run %q of", run), key, err)
}
