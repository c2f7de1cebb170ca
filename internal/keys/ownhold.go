package keys

import (
	"context"
	"slices"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/grant"
	"github.com/rowlock/rowlock/internal/undo"
)

// What an attempt meets may be a hold of this client's own: one that another caller of it has, or one that no caller has and that is
// to be ended. The latter is no other program's, and is told as ErrReleasing (byOwnRelease).

// heldHere is why key cannot be had within this client in this mode: it is a lease of another
// caller, or its release is not answered; nil: neither. Called under Table.mu.
func (t *Table) heldHere(id ID) (why *Refusal) {
	for _, k := range t.entries(id.Name) {
		if k == nil || k.Held == 0 || k.id.Mode != driver.Exclusive && id.Mode != driver.Exclusive {
			continue
		}
		for _, g := range k.grants {
			if left, live := g.Live(); live {
				return &Refusal{Owner: g.Terms.Owner, Left: left + g.Terms.Margin, Shared: k.id.Mode != driver.Exclusive}
			}
		}
		why = ByOwnRelease
	}
	return why
}

// asyncWait is how long an attempt waits for a release of its own client at most.
const asyncWait = 3 * time.Second

// AwaitReleases waits for the releases of a key, of holds that exclude this mode, that no caller of this client waits for.
// (A caller that waits for the key is woken by the answer.)
func (t *Table) AwaitReleases(ctx context.Context, id ID) {
	var grants []*grant.Grant
	t.mu.Lock()
	for _, k := range t.entries(id.Name) {
		if k != nil && excludes(k.id.Mode, id.Mode) {
			grants = append(grants, k.grants...)
		}
	}
	t.mu.Unlock()
	for _, g := range grants {
		g.AwaitRelease(ctx, asyncWait)
	}
}

// unawaited reports whether a release of the key by this client, of a hold that excludes this mode, is on its way and no caller waits for
// its answer: Release of a client with ReleaseAsync, or what AcquireAll gave back. Called under Table.mu.
func (t *Table) unawaited(id ID) bool {
	for _, k := range t.entries(id.Name) {
		if k != nil && excludes(k.id.Mode, id.Mode) && slices.ContainsFunc(k.grants, (*grant.Grant).Unawaited) {
			return true
		}
	}
	return false
}

// left is what this client may have left of the key in a mode that excludes this one. Called under Table.mu.
func (t *Table) left(id ID) undo.Left {
	l := t.Unresolved.Left(id.Name, func(m driver.Mode) bool { return excludes(m, id.Mode) })
	for _, m := range [...]driver.Mode{driver.Exclusive, driver.Shared, driver.Slot} {
		if excludes(m, id.Mode) && t.givenUp[ID{id.Name, m}] > 0 {
			return l.WithAttempt()
		}
	}
	return l
}

// givenUpEnds notes that an attempt of a caller who has left was answered. Called under Table.mu.
func (t *Table) givenUpEnds(id ID) {
	if t.givenUp[id]--; t.givenUp[id] <= 0 {
		delete(t.givenUp, id)
	}
}

// metOwn reports whether the refusal of an attempt for the key is most likely by a hold of this client's that no caller has:
// Release did not wait any longer for its answer, or an attempt left it behind, or its transaction open, and it is not ended. before
// is what was left when the attempt, or the probe, was sent. Not every store tells whose hold it is, and other clients may have the same owner. A
// release under way, for which its caller waits, keeps the key held until then. If it may be, and may be another's, that is noted in held.
// Called under Table.mu.
func (t *Table) metOwn(id ID, held *Refusal, before undo.Left) bool {
	if held == nil || held.Owner != "" && held.Owner != t.Owner {
		return false
	}
	switch here := t.heldHere(id); {
	case here == ByOwnRelease && t.unawaited(id):
		return true
	case here != nil && here != ByOwnRelease:
		return false // another caller has it
	}
	left := before.Or(t.left(id))
	held.PerhapsOwn = held.Owner == "" && left.Place()
	return left.Explains(held.Owner == t.Owner, held.Pinned)
}
