package rowlock

import "github.com/rowlock/rowlock/driver"

// HoldOf returns what the database knows of the lease.
func HoldOf(l *Lease) driver.Hold {
	h := l.g.Hold
	h.Token = l.token
	return h
}
