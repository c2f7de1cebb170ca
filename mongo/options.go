package mongolock

// Options of a Store. The zero value is right for a replica set.
type Options struct {
	// AllowStandalone accepts a server that is no member of a replica set, for
	// development. Tokens come from the server's clock then (they can repeat after
	// the clock was set back and the key's document was removed), guarded
	// transactions do not exist, and an undo is repeated for a TTL because the
	// server cannot refuse a late attempt.
	AllowStandalone bool

	// FewConnections is for a program that takes a lease, or a few at once, and ends with them, as rowlock run does: the
	// Store uses at most three connections of its client's pool, which must allow so many (maxPoolSize); only Check looks
	// at that. Acquires and looks take turns on one, renewals and releases on another; the third is for the change
	// stream of Observe, for InTx and Once, and for a question when a connection is silent. The driver has
	// connections of its own beside them, by which it watches each server.
	FewConnections bool
}
