package keys

import (
	"context"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/grant"
	"github.com/rowlock/rowlock/internal/key"
)

// Handoff: a lease is released while a caller of the same client waits for the key, and
// its grant passes to that caller in memory, without a statement. (Lock cohorting: Dice,
// Marathe, Shavit, PPoPP 2012.) The database granted a range of tokens; each local holder
// gets the next one and a lease of its own. The old lease sends nothing any more.
//
// Whether another program gets the key instead is decided in internal/key (Releasing), whether
// a grant may be handed off at all in grant.mayHandOffLocked, and to whom in nextFor.

// DefaultHandoff is how long a client keeps a key that another program wants, from the
// moment at which it got the key: then the key goes back to the database.
const DefaultHandoff = 50 * time.Millisecond

// Handoff passes a grant that from, with this token, releases to the head of the local queue,
// if it asked for such a one. A slot passes to the first caller that may have it. Readers do
// not wait for each other: see joinGrant.
func (t *Table) Handoff(ctx context.Context, from grant.Used, token int64) bool {
	g := from.Grant
	if t.HandoffTime < 0 || g.Hold.Mode == driver.Shared {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	k := t.keys[idOf(g)]
	if t.closed || k == nil || len(k.waiters) == 0 {
		return false
	}
	now := t.Now()
	i := k.nextFor(g, now)
	if i < 0 {
		return false
	}
	if k.Step(key.Event{Kind: key.Releasing}, now, k.env()).Do != key.HandOff {
		return false
	}
	next := none
	handedOff := g.HandOff(from.User, k.waiters[i].Ask.Terms, func(token int64) grant.User {
		next = t.NewUser(g, now, token)
		return next.User
	})
	if !handedOff {
		return false
	}
	t.Logs.Step(ctx, "handed off", &g.Hold, token)
	k.popAt(i, next)
	k.do(k.HandedOff(now, k.env()))
	return true
}
