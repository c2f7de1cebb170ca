package conn

import (
	"errors"
	"time"
)

// An address can come to lead to another server while connections to the one before stay open: after a failover a DNS
// name, a moved address and many proxies leave them. The old server may not know that it is the primary no more, where
// only the other servers cannot reach it. It changes nothing any more, because its commits wait for a replica, but it
// reads, and does not know what was granted elsewhere since. So what it does not find says nothing.
//
// Such a connection is known by this: one to another server was ready after it began to be opened. Where an address
// leads to several servers all the time that is so of many. They are believed in all that they find, and in what they
// do not find the connection is believed that is opened next.
//
// What is taken out of a program's pool counts as opened then. If it had rested there, and leads to the old server, it is
// believed.

// ErrLeft: what was not found was asked for on a connection to a server that the address may have left.
var ErrLeft = errors.New("a connection that was opened later leads to another server")

// reached notes that the connection is ready.
func (d *DB) reached(c *Conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.servers == nil {
		d.servers = make(map[string]time.Time)
	}
	if c.Ready.After(d.servers[c.Server]) {
		d.servers[c.Server] = c.Ready
	}
}

// Left reports whether the address may have left the connection's server since: what is not found there may be elsewhere.
func (c *Conn) Left() bool {
	c.db.mu.Lock()
	defer c.db.mu.Unlock()
	for server, ready := range c.db.servers {
		if server != c.Server && ready.After(c.Opened) {
			return true
		}
	}
	return false
}
