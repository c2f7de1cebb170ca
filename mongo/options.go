package mongolock

// Options of a Store. The zero value is right for a replica set.
type Options struct {
	// AllowStandalone accepts a server that is no member of a replica set, for
	// development. Tokens come from the server's clock then (they can repeat after
	// the clock was set back and the key's document was removed), guarded
	// transactions do not exist, and an undo is repeated for a TTL because the
	// server cannot refuse a late attempt.
	AllowStandalone bool
}
