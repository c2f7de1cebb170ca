package rowlock

import (
	"slices"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/grant"
	"github.com/rowlock/rowlock/internal/undo"
)

// What an attempt meets may be a hold of this client's own: one that another caller of it has, or one that no caller has and that is
// to be ended. The latter is no other program's, and is told as ErrReleasing.

// heldHere is why key cannot be had within this client in this mode: it is a lease of another
// caller, or its release is not answered; nil: neither. Called under c.mu.
func (c *Client) heldHere(id keyID) (why error) {
	for _, k := range c.entries(id.name) {
		if k == nil || k.Held == 0 || k.id.mode != driver.Exclusive && id.mode != driver.Exclusive {
			continue
		}
		for _, g := range k.grants {
			if left, live := g.Live(); live {
				return &HeldError{
					Key: id.name, Owner: g.Terms.Owner, Left: left + g.Terms.Margin, Shared: k.id.mode != driver.Exclusive,
				}
			}
		}
		why = ErrReleasing
	}
	return why
}

// unawaited reports whether a release of the key by this client, of a hold that excludes this mode, is on its way and no caller waits for
// its answer: Release of a client with ReleaseAsync, or what AcquireAll gave back. Called under c.mu.
func (c *Client) unawaited(id keyID) bool {
	for _, k := range c.entries(id.name) {
		if k != nil && excludes(k.id.mode, id.mode) && slices.ContainsFunc(k.grants, (*grant.Grant).Unawaited) {
			return true
		}
	}
	return false
}

// left is what this client may have left of the key in a mode that excludes this one. Called under c.mu.
func (c *Client) left(id keyID) undo.Left {
	l := c.unresolved.Left(id.name, func(m driver.Mode) bool { return excludes(m, id.mode) })
	for _, m := range [...]driver.Mode{driver.Exclusive, driver.Shared, driver.Slot} {
		if excludes(m, id.mode) && c.givenUp[keyID{id.name, m}] > 0 {
			return l.WithAttempt()
		}
	}
	return l
}

// givenUpEnds notes that an attempt of a caller who has left was answered. Called under c.mu.
func (c *Client) givenUpEnds(id keyID) {
	if c.givenUp[id]--; c.givenUp[id] <= 0 {
		delete(c.givenUp, id)
	}
}

// metOwn reports whether the refusal of an attempt for the key is most likely by a hold of this client's that no caller has:
// Release did not wait any longer for its answer, or an attempt left it behind, or its transaction open, and it is not ended. before
// is what was left when the attempt, or the probe, was sent. Not every store tells whose hold it is, and other clients may have the same owner. A
// release under way, for which its caller waits, keeps the key held until then. Called under c.mu.
func (c *Client) metOwn(id keyID, held *HeldError, before undo.Left) bool {
	if held == nil || held.Waiting > 0 || held.Owner != "" && held.Owner != c.opts.Owner {
		return false
	}
	switch here := c.heldHere(id); {
	case here == ErrReleasing && c.unawaited(id):
		return true
	case here != nil && here != ErrReleasing:
		return false // another caller has it
	}
	return before.Or(c.left(id)).Explains(held.Owner == c.opts.Owner, held.Pinned)
}
