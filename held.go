package rowlock

import (
	"cmp"
	"slices"
	"time"

	"github.com/rowlock/rowlock/driver"
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
	for _, g := range c.renewer.All() {
		deadline, renewed, noRenew := g.Trusted()
		for _, u := range g.Users() {
			l := (*Lease)(u.(*user))
			if l.end() != nil {
				continue
			}
			all = append(all, Held{
				Key: g.Hold.Key, Token: l.token, Mode: g.Hold.Mode, Slot: l.Slot(), Owner: g.Terms.Owner,
				Since: wall.Add(l.began - now), For: max(now-l.began, 0),
				TTL: g.Terms.TTL, Left: max(deadline-now, 0), Trust: deadline - renewed, Renewed: wall.Add(renewed - now), NoRenew: noRenew,
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
}

// Waits are the callers that wait now, in Acquire, Do, Lead, Every or AcquireAll, the one that has waited longest
// first. It asks nobody. Of a nil Client it is empty.
func (c *Client) Waits() []Wait {
	if c == nil {
		return nil
	}
	var all []Wait
	c.mu.Lock()
	now, wall := c.now(), time.Now()
	for id, k := range c.keys {
		for _, w := range k.waiters {
			all = append(all, Wait{
				Key: id.name, Mode: id.mode, Owner: w.set.Owner,
				Since: wall.Add(w.since - now), For: max(now-w.since, 0), Err: w.last,
			})
		}
	}
	c.mu.Unlock()
	for i := range all {
		all[i].Name = c.nameOf(all[i].Key)
	}
	slices.SortFunc(all, func(a, b Wait) int { return cmp.Or(cmp.Compare(b.For, a.For), cmp.Compare(a.Key, b.Key)) })
	return all
}

// Name is Options.Name.
func (c *Client) Name() string {
	if c == nil {
		return ""
	}
	return c.opts.Name
}

// Store is the one that the client was made with; nil for a nil Client.
func (c *Client) Store() driver.Store {
	if c == nil {
		return nil
	}
	return c.store.Driver()
}
