package rowlock

// Stats is a snapshot of what a Client does. Counters only grow.
type Stats struct {
	Held          int    // leases held now
	Waiting       int    // callers of Acquire waiting now
	Unresolved    int    // attempts and releases whose outcome is not known yet
	Renewals      uint64 // renewals acknowledged, one for each lease (one for readers of the client that share a hold)
	Losses        uint64 // leases that ended before their release, those that Close ended among them
	LateReleases  uint64 // releases whose answer did not come within ReleaseWait
	DroppedEvents uint64 // of observers that took them too slowly
	Statements    uint64 // statements sent by the store (its calls, if the store does not count); other clients of the store included
}

// Stats tells what the client does now and did so far.
func (c *Client) Stats() Stats {
	if c == nil {
		return Stats{}
	}
	var dropped uint64
	if c.teller != nil {
		dropped = c.teller.dropped.Load()
	}
	return Stats{
		DroppedEvents: dropped,
		Held:          c.table.Renewer.Len(),
		Waiting:       c.table.CountWaiting(),
		Unresolved:    c.table.Unresolved.Len(),
		Renewals:      c.table.Renewer.Renewed(),
		Losses:        c.table.Renewer.Losses(),
		LateReleases:  c.table.Renewer.Late(),
		Statements:    c.store.Statements(),
	}
}
