package rowlock

import "errors"

// A key that a transaction pins goes in batches of its own (Client.pinned), because a batch
// is answered when its slowest key is. The Store says which keys are pinned. Where a batch
// has too many of them among others for the Store to say in time, the Store is not sure, and
// the engine sends them again at once, in a batch without the others (Request.Apart).

// pinning is what the last answer to an attempt said.
type pinning uint8

const (
	notPinned pinning = iota
	maybePinned
	isPinned
)

// unsureError is the refusal of a key that the engine sends again at once, in a batch without
// keys that are not pinned.
type unsureError struct{ *HeldError }

func (e *unsureError) Unwrap() error { return e.HeldError }

func unsure(err error) bool {
	var e *unsureError
	return errors.As(err, &e)
}

// pinning is what the last attempt for a key said of it.
func (k *keyEntry) pinning() pinning {
	switch {
	case k.Apart:
		return maybePinned
	case k.Backoff.Pinned:
		return isPinned
	}
	return notPinned
}
