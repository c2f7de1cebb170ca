package grant

import (
	"context"
	"slices"

	"github.com/rowlock/rowlock/internal/logs"
)

// A grant of a reader may have several users (driver.Shared): readers of the same client, whose
// leases have its token. One of them ends alone, without a statement; the last one's release is
// that of the grant.

// Join adds a user that asked for t. next makes it. false, and nothing has changed: the grant
// has ended or cannot be used by another.
func (g *Grant) Join(t Terms, next func(token int64) User) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.user == nil || g.noRenew || t.Guarded || t.Mode != g.Terms.Mode || !g.mayHandOffLocked(t) {
		return false
	}
	g.more = append(g.more, next(g.token))
	g.rn.joined.Add(1)
	return true
}

// hasLocked reports whether user uses the grant.
func (g *Grant) hasLocked(user User) bool {
	return g.user != nil && (g.user == user || slices.Contains(g.more, user))
}

// leaveLocked ends the grant for one of several users. false: it has no other, or is not user's.
func (g *Grant) leaveLocked(user User, reason Reason) bool {
	if len(g.more) == 0 || !g.hasLocked(user) {
		return false
	}
	last := len(g.more) - 1
	if g.user == user {
		g.user = g.more[last]
	} else {
		g.more[slices.Index(g.more, user)] = g.more[last]
	}
	g.more[last] = nil
	g.more = g.more[:last]
	g.rn.joined.Add(-1)
	user.Ended(reason, nil)
	return true
}

// EndOthers ends the grant, with Closed, for the users that stay does not name: it goes on for
// those.
func (g *Grant) EndOthers(stay func(User) bool) {
	g.mu.Lock()
	h, users, left := g.holdLocked(), append([]User{g.user}, g.more...), 0
	for _, u := range users {
		if !stay(u) && g.leaveLocked(u, Closed) {
			left++
		}
	}
	g.mu.Unlock()
	g.rn.losses.Add(uint64(left))
	for range left {
		g.rn.report.Closed.Add(context.Background(), logs.Attrs(h.Key, h.Mode, "token", h.Token, "hold", h.ID)...)
	}
}
