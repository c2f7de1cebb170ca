package grant

import (
	"context"
	"sync"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/logs"
	"github.com/rowlock/rowlock/internal/repeat"
	"github.com/rowlock/rowlock/internal/undo"
)

// Terms are what a caller asked for.
type Terms struct {
	TTL, Margin      time.Duration
	MinHold, MaxHold time.Duration // 0: none
	NoRenew, Guarded bool
	Owner            string // as the database shows it
	Mode             driver.Mode
	Slots            int // of mode Slot

	// Late, beside MinHold, is by how much what the hold is for may begin later than the grant;
	// the database keeps the key for so much longer. Until Begins the key is not kept: every end
	// of the hold frees it at once. 0: MinHold counts from the grant, whatever begins.
	Late time.Duration
}

// Keep is for how long the database keeps the key from the grant on, also after a crash.
func (t Terms) Keep() time.Duration { return t.MinHold + t.Late }

// AnswerWithin is how long after its start an attempt may be answered for its caller to get a
// lease. What is left of the trust then is enough for a first renewal, where a live holder
// is to keep its lease: the server takes a part of the TTL for it and the process another
// (P26). A lease that nobody renews may come as late as it is trusted.
func (t Terms) AnswerWithin() time.Duration {
	window := t.TTL - t.Margin
	if t.NoRenew {
		return window
	}
	return max(window-t.TTL/slowestCommit-t.TTL/slowestProcess, window/2)
}

// Grant is one hold as the database knows it. It is safe for concurrent use.
type Grant struct {
	Hold  driver.Hold // constant; its token is that of the first user
	Terms Terms
	Began time.Duration // the start of the attempt that was granted: MaxHold counts from here

	rn *Renewer

	mu        sync.Mutex
	user      User           // nil: it has ended
	more      []User         // beside it: readers (Join)
	token     int64          // the users'
	deadline  time.Duration  // of trust
	renewedAt time.Duration  // the start of the last statement that was acknowledged
	shortened bool           // the renewal that set the deadline was cut short by MaxHold
	renewals  int            // on their way
	latest    *renewal       // of those that the renewer started
	sent      time.Duration  // when the last was, of any
	answered  time.Duration  // when the grant or its last renewal was
	silence   repeat.Silence // of the renewals that the renewer starts
	guarded   bool           // a guard was asked for: it never passes on
	single    bool           // NeverHandOff
	noRenew   bool           // of the user
	began     bool           // Begins
	confirmed time.Duration  // how long after the pass the renewal was sent that wrote what a pass cannot; 0: no pass
	passed    time.Duration  // of a key that was passed on in the line, until its first renewal is acknowledged: what it was trusted for; 0: not so
	keep      time.Duration  // what the release asks for
	cause     error          // the last failed renewal since an acknowledged one
	release   releasing

	schedule schedule // guarded by Renewer.mu
}

// User is the handle that a caller has on a grant. Its methods are called under the
// grant's lock, or by the renewer; they do not block and do not call the grant.
type User interface {
	// Ended says that the grant is over for this user. cause may be nil.
	Ended(reason Reason, cause error)

	// Renewed says that a renewal was acknowledged.
	Renewed(now time.Duration)
}

// Reason says why a grant ended.
type Reason uint8

const (
	Released  Reason = iota + 1 // by its user
	HandedOff                   // by its user, to the next one or to those beside it: the grant goes on
	Expired                     // it was not renewed in time
	MaxHold                     // its time was over
	Taken                       // the database has a newer hold
	Removed                     // the database has no such hold
	Forced                      // somebody ended it in the database
	Closed                      // the client was closed
	CutOff                      // the client was closed under a function that still runs
	Unwanted                    // it reached no caller
)

// New makes the grant of an attempt that began then and was answered by r. [Renewer.Add]
// takes it on.
func New(key string, id driver.HoldID, t Terms, began time.Duration, r driver.Result) Grant {
	return Grant{
		Hold: driver.Hold{
			Key: key, ID: id, Token: r.Token, Stored: r.Stored,
			TTL: t.TTL, MaxHold: t.MaxHold, Keep: t.Keep(), Guarded: t.Guarded,
			Mode: t.Mode, Slot: r.Slot, Phase: r.Phase,
		},
		Terms:     t,
		Began:     began,
		token:     r.Token,
		renewedAt: began,
		noRenew:   t.NoRenew,
		began:     t.Late == 0,
		keep:      t.Keep(),
		deadline:  began + t.TTL - t.Margin,
	}
}

// WasPassed says that the key of a grant that was just made was passed to its request in the line, as a look found that was sent then. It is
// trusted for what the look said is left of it, but for margin: the server read that later than the look was sent.
func (g *Grant) WasPassed(margin, sent time.Duration, v driver.View) {
	g.Began = sent - v.Age // at the latest: MaxHold counts from the pass
	g.deadline = sent + v.Left - margin
	g.passed = max(v.Left-margin, 1)
}

// Deadline is until when the grant is trusted.
func (g *Grant) Deadline() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.deadline
}

// Live reports whether the grant is in use and trusted, and for how long.
func (g *Grant) Live() (left time.Duration, live bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	left = g.deadline - g.rn.store.Now()
	return left, g.user != nil && left > 0
}

// Check looks at the clock, and ends a grant whose deadline has passed.
func (g *Grant) Check() {
	g.mu.Lock()
	reason, cause, over := g.overLocked()
	if !over {
		g.mu.Unlock()
		return
	}
	end := g.endLocked(reason, cause)
	g.mu.Unlock()
	g.after(end)
}

// overLocked reports whether the deadline has passed, and why no renewal moved it.
func (g *Grant) overLocked() (reason Reason, cause error, over bool) {
	switch {
	case g.user == nil || g.rn.store.Now() < g.deadline:
		return 0, nil, false
	case g.endingLocked():
		return MaxHold, nil, true
	case g.cause == nil && g.renewals > 0:
		return Expired, errUnanswered, true
	}
	return Expired, g.cause, true
}

// endingLocked reports whether MaxHold ends the grant at its deadline.
func (g *Grant) endingLocked() bool { return g.shortened || g.maxHoldEnd() <= g.deadline }

// maxHoldEnd is the trust deadline that no renewal passes.
func (g *Grant) maxHoldEnd() time.Duration {
	if g.Terms.MaxHold == 0 {
		return forever
	}
	return g.Began + g.Terms.MaxHold - g.Terms.Margin
}

// End ends the grant, once; false: it had ended, or is being released.
func (g *Grant) End(reason Reason, cause error) bool {
	g.mu.Lock()
	if g.user == nil {
		g.mu.Unlock()
		return false
	}
	end := g.endLocked(reason, cause)
	g.mu.Unlock()
	g.after(end)
	return true
}

// EndUnwanted ends the grant for a user that reached no caller. Other users that it has by now keep it.
func (g *Grant) EndUnwanted(user User) {
	g.mu.Lock()
	if g.leaveLocked(user, Unwanted) || g.user != user {
		g.mu.Unlock()
		return
	}
	end := g.endLocked(Unwanted, nil)
	g.mu.Unlock()
	g.after(end)
}

// ending is a grant that has ended just now.
type ending struct {
	reason Reason
	cause  error
	users  int
	undo   undo.Task // of its hold
}

// endLocked is the one end of a grant: it tells its users. What follows from it is done by
// after, without the lock. Called under g.mu of a grant that is in use.
func (g *Grant) endLocked(reason Reason, cause error) ending {
	task := g.undoLocked()
	if g.cause != nil {
		g.cause = nil
		g.rn.report.Renew.Less(1)
	}
	user, more := g.user, g.more
	g.user, g.more = nil, nil
	user.Ended(reason, cause)
	for _, u := range more {
		u.Ended(reason, cause)
	}
	g.rn.joined.Add(-int64(len(more)))
	return ending{reason, cause, 1 + len(more), task}
}

// undoLocked is the task to end the hold. What was answered is done, so that the hold is over a TTL after the answer, however long this
// process stood still since; a renewal whose fate is unknown may prolong it yet.
func (g *Grant) undoLocked() undo.Task {
	t := undo.Task{Hold: g.holdLocked(), Acknowledged: true, Sent: g.answered}
	t.Hold.Undo = !g.began
	if g.renewals > 0 || g.cause != nil {
		t.Sent, t.Prolonged = g.rn.store.Now(), true
	}
	return t
}

// after does what follows from an end: the loss is counted and logged, the hold taken
// back where the database may still have it, and the machine of the key told.
func (g *Grant) after(e ending) {
	rn := g.rn
	lost := uint64(e.users)
	rn.remove(g)
	undone, hold := e.undo, e.undo.Hold
	switch e.reason {
	case Released:
		return // its answer is still to come
	case Unwanted:
		undone.Hold.Undo = true
		rn.unresolved.Add(undone)
	case Closed:
		rn.losses.Add(lost)
		rn.report.Closed.Add(context.Background(), logs.Attrs(hold.Key, hold.Mode, "token", hold.Token, "hold", hold.ID)...)
		rn.unresolved.Add(undone)
	case CutOff:
		rn.losses.Add(lost)
	default:
		rn.losses.Add(lost)
		rn.report.Lost.Add(context.Background(), logs.Attrs(hold.Key, hold.Mode, "token", hold.Token, "hold", hold.ID, "err", rn.lost(hold.Key, hold.Token, e.reason, e.cause))...)
		if e.reason == Expired || e.reason == MaxHold {
			// Not before the margin has passed: work that looks at Done needs a moment
			// to stop, and the key stays taken meanwhile.
			undone.NotBefore = rn.store.Now() + g.Terms.Margin
			rn.unresolved.Add(undone)
		}
	}
	rn.ended(g, Outcome{Lost: true})
}

// holdLocked is the hold as statements name it. One that was guarded may have a
// transaction open, for which its release must not wait.
func (g *Grant) holdLocked() driver.Hold {
	h := g.Hold
	h.Token = g.token
	h.Guarded = h.Guarded || g.guarded
	h.Keep = g.keep
	if g.passed > 0 {
		h.Confirm, h.Owner = true, g.Terms.Owner
		if h.Keep > 0 { // counted from here, as for a grant that is not passed
			since := max(g.rn.store.Now()-g.Began, 1)
			if g.confirmed == 0 {
				g.confirmed = since
			}
			h.Keep += (since + keepStep - 1).Truncate(keepStep)
		}
	}
	return h
}

// keepStep is what the release of a hold that began late is rounded up to: few values, few
// statements.
const keepStep = time.Millisecond

// Begins says that what the hold is for begins now, so late after the grant at the most.
// MinHold counts from now on: the release keeps the key until then. false: that is later than
// Terms.Late, or the grant has ended, and it must not begin.
func (g *Grant) Begins() (late time.Duration, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	since := g.rn.store.Now() - g.Began
	late = since - g.confirmed
	if late > g.Terms.Late || g.user == nil || g.Began+since >= g.deadline {
		return late, false
	}
	g.began, g.keep = true, g.Terms.MinHold+min((since+keepStep-1).Truncate(keepStep), g.Terms.Late+g.confirmed)
	return late, true
}

// BeginGuard is the first step of a guard by user: from then on the grant never passes
// on. false: it is not user's any more.
func (g *Grant) BeginGuard(user User) (driver.Hold, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.hasLocked(user) {
		return driver.Hold{}, false
	}
	g.guarded = true
	h := g.Hold
	h.Token = g.token
	return h, true
}

// NeverHandOff makes HandOff and Join refuse from now on: the last release goes to the database.
func (g *Grant) NeverHandOff() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.single = true
}

// HandOff hands the grant from its only user, which is told HandedOff, to the next, which asked
// for t and gets a token of its own. next makes it. false, and nothing has changed: the grant cannot
// pass, or is not from's.
func (g *Grant) HandOff(from User, t Terms, next func(token int64) User) bool {
	g.mu.Lock()
	if g.user != from || len(g.more) > 0 || !g.mayHandOffLocked(t) {
		g.mu.Unlock()
		return false
	}
	from.Ended(HandedOff, nil)
	g.token++
	g.user = next(g.token)
	renew, at := g.noRenew, g.renewedAt+g.rn.interval(g)
	g.noRenew = false
	g.mu.Unlock()
	if renew { // from now on
		g.rn.plan(g, at)
	}
	return true
}

// renews reports whether the renewer renews the grant.
func (g *Grant) renews() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return !g.noRenew && g.maxHoldEnd() > g.deadline
}

// windowLocked is for how long the last acknowledged statement made the grant trusted.
func (g *Grant) windowLocked() time.Duration {
	if g.passed > 0 {
		return g.passed
	}
	return g.Terms.TTL - g.Terms.Margin
}

func (g *Grant) mayHandOffLocked(t Terms) bool {
	return t.TTL == g.Terms.TTL && t.Margin == g.Terms.Margin && t.Guarded == g.Terms.Guarded &&
		t.Owner == g.Terms.Owner && // the database would show the owner before
		!g.single &&
		g.Terms.MinHold == 0 && t.MinHold == 0 && // its end is written by the release
		g.Terms.MaxHold == 0 && t.MaxHold == 0 && // the database counts it from its own grant
		!t.NoRenew && // it would not get its whole TTL
		!g.guarded && // its transaction may be open: the next grant must wait for it in the database
		g.deadline-g.rn.store.Now() >= g.windowLocked()/2 &&
		g.token+1-g.Hold.Token < driver.TokenRange
}
