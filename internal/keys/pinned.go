package keys

// A key that a transaction pins goes in batches of its own (Table.pinned), because a batch
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

// pinning is what the last attempt for a key said of it.
func (k *keyEntry) pinning() pinning {
	switch {
	case k.Apart:
		return maybePinned
	case k.Pinned:
		return isPinned
	}
	return notPinned
}
