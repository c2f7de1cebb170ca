package rowlock

import "github.com/rowlock/rowlock/driver"

// HoldOf returns what the database knows of the lease.
func HoldOf(l *Lease) driver.Hold {
	h := l.g.Hold
	h.Token = l.token
	return h
}

// KeysOf counts what the client keeps of keys: the entries, and those of them that are kept
// for a while only because of what they know.
func KeysOf(c *Client) (entries, idle, waiting, together int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.keys), c.idleKeys, c.waiting, c.together
}
