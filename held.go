package rowlock

import (
	"cmp"
	"slices"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/keys"
)

// Held is a lease that a client has.
type Held struct {
	Key   string
	Name  string // what Options.KeyName makes of Key
	Token int64
	Mode  driver.Mode
	Slot  int // with Slots; else -1
	Owner string

	Since time.Time     // when the caller got it
	For   time.Duration // it has been held
	TTL   time.Duration
	Left  time.Duration // of the trust, if no renewal is acknowledged meanwhile
	Trust time.Duration // all of it: from the last renewal, or the attempt, to the trust deadline

	// Renewed is the beginning of the last renewal that was acknowledged; before the first one
	// of the attempt that was granted.
	Renewed time.Time
	NoRenew bool // renewals are the caller's

	// Leads: it is a term of Lead, and held for as long as the program leads. It is no sign of work that hangs.
	Leads bool

	// Ending: MaxHold ends it when Left is over, and no renewal makes Left longer.
	Ending bool
}

// Leases are those that the client has now, the one that has been held longest first. It asks
// nobody, and its times are by the client's clock. Views (Reentrant) are not among them; of
// readers that share a hold in the database each is. Of a nil Client it is empty.
func (c *Client) Leases() []Held {
	if c == nil {
		return nil
	}
	var all []Held
	now, wall := c.now(), time.Now()
	for _, g := range c.table.Renewer.All() {
		trust := g.Trusted()
		for _, u := range g.Users() {
			l := leaseOfUser(u)
			if l.end() != nil {
				continue
			}
			all = append(all, Held{
				Key: g.Hold.Key, Token: l.token, Mode: g.Hold.Mode, Slot: l.Slot(), Owner: g.Terms.Owner,
				Since: wall.Add(l.began - now), For: max(now-l.began, 0),
				TTL: g.Terms.TTL, Left: max(trust.Deadline-now, 0), Trust: trust.Deadline - trust.Renewed, Renewed: wall.Add(trust.Renewed - now),
				NoRenew: trust.NoRenew, Leads: l.leads.Load(), Ending: trust.Ending,
			})
		}
	}
	for i := range all {
		all[i].Name = c.nameOf(all[i].Key)
	}
	slices.SortFunc(all, func(a, b Held) int { return cmp.Or(cmp.Compare(b.For, a.For), cmp.Compare(a.Key, b.Key)) })
	return all
}

// Wait is a caller of the client that waits for a key.
type Wait struct {
	Key   string
	Name  string // what Options.KeyName makes of Key
	Mode  driver.Mode
	Owner string // its own

	Since time.Time
	For   time.Duration

	// Err says why it could not have the key last: a *HeldError where another holds it; nil: that
	// is not known yet.
	Err error

	// StandsBy: it waits in Lead or Every, where a long wait is usual: while another program leads, or until the next run is due.
	StandsBy bool
}

// Waits are the callers that wait now, in Acquire, Do, Lead, Every or AcquireAll, the one that has waited longest
// first. It asks nobody. Of a nil Client it is empty.
func (c *Client) Waits() []Wait {
	if c == nil {
		return nil
	}
	var all []Wait
	now, wall := c.now(), time.Now()
	c.table.EachWaiting(func(w *keys.Waiter) {
		all = append(all, Wait{
			Key: w.ID().Name, Mode: w.Mode, Owner: w.Owner,
			Since: wall.Add(w.Since - now), For: max(now-w.Since, 0), Err: toldOf(w.ID().Name, w.Last),
			StandsBy: w.StandsBy,
		})
	})
	for i := range all {
		all[i].Name = c.nameOf(all[i].Key)
	}
	slices.SortFunc(all, func(a, b Wait) int { return cmp.Or(cmp.Compare(b.For, a.For), cmp.Compare(a.Key, b.Key)) })
	return all
}
