package rowlock

import "errors"

// A key that a transaction pins goes in batches of its own (Client.pinned), because a
// batch is answered when its slowest key is. Which keys are pinned the Store tells. Where
// there are too many to tell in the batch in which they came with others, it is not sure,
// and they are sent again at once, apart from the others.

// pinning is what the last answer to an attempt said.
type pinning uint8

const (
	notPinned pinning = iota
	maybePinned
	isPinned
)

// unsureError is the refusal of a key that goes again at once, apart from others.
type unsureError struct{ *HeldError }

func (e *unsureError) Unwrap() error { return e.HeldError }

func unsure(err error) bool {
	var e *unsureError
	return errors.As(err, &e)
}

// pinning is what the last attempt for a key said of it.
func (k *keyed) pinning() pinning {
	switch {
	case k.Apart:
		return maybePinned
	case k.Pace.Pinned:
		return isPinned
	}
	return notPinned
}
