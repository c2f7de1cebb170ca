package check

import (
	"slices"
	"time"

	"github.com/rowlock/rowlock/dev/verify/history"
)

// effect is what a fault excuses.
type effect struct {
	// The server's clock is set, or one of another node counts from now on. Holds end
	// early, without the signal: P2, and with it P1, is not judged until all of them
	// have been renewed or lost. Later than that holds may end late, by any time: P6 and
	// P7 are not judged in the rest of the round. UniqueInsert has its tokens from that
	// clock: P3 is judged before and after, not across.
	clock bool

	// Sessions are ended from outside, and with SelectForUpdate the key is free then:
	// P2 and P1 are not judged there until all holders have noticed.
	sessions bool

	// Another server takes over, and sessions end with the one before. With SelectForUpdate their holders are told that
	// the hold was removed, which nobody did before its time (P10). The key stays taken until the hold expires: P1 and P2
	// are judged.
	failover bool

	// Holds are ended by an operator: P2 and P1 are not judged until all have noticed.
	forced bool

	// It happens to clients only: what was sent is executed, and time goes on for
	// holds (P6, P7). In the time of all other faults a hold may live on.
	clients bool

	// The server stays well for keys that the fault does not touch: their leases are kept
	// (P15, P26). In the time of all others they may be lost, with the signal.
	calm bool

	// It is calm for leases of this TTL and longer only: shorter ones leave no time to notice.
	calmFrom time.Duration

	// Transactions of others keep rows locked, or whole tables: such a key is told to be held.
	locks bool

	// It blocks some keys, and no lease of another is to be lost by that (P15).
	blocks bool
}

// effects are those of all faults, by name. A fault that is missing here makes a
// history unfit to be judged.
var effects = map[string]effect{
	"client-killed":        {clients: true, calm: true},
	"client-frozen-long":   {clients: true, calm: true},
	"client-frozen-short":  {clients: true, calm: true},
	"client-clock-stepped": {clients: true, calm: true},

	"slow":          {},
	"trickle":       {},
	"half-open":     {sessions: true},                                        // its end is a reset
	"idle-dead":     {sessions: true, calm: true, calmFrom: 6 * time.Second}, // its end is a reset
	"distance":      {},
	"cut":           {sessions: true},
	"refused":       {sessions: true},
	"reply-dropped": {sessions: true},
	"request-late":  {sessions: true},

	"server-killed":        {sessions: true},
	"server-frozen-short":  {},
	"server-frozen-long":   {},
	"clock-stepped-far":    {clock: true},
	"clock-stepped-little": {clock: true},
	"disk-full":            {sessions: true}, // where the server ends
	"connections-full":     {sessions: true},
	"sessions-killed":      {sessions: true},
	"wait-timeout":         {sessions: true}, // it ends those that are there
	"operations-killed":    {},
	"primary-stepped-down": {},
	"primary-killed":       {failover: true},
	"primary-frozen":       {failover: true},
	"primary-cut-off":      {failover: true},
	"secondary-killed":     {},
	"primary-switched":     {failover: true},
	"successor-frozen":     {failover: true},
	"successor-clock-off":  {clock: true, failover: true},
	"replicas-behind":      {failover: true},
	"address-cut":          {sessions: true}, // not injected: the address of a cluster lost sight of a primary that stayed it

	"rows-locked":         {calm: true, blocks: true, locks: true},
	"gaps-locked":         {locks: true},
	"deadlocks":           {calm: true, blocks: true, locks: true},
	"long-transaction":    {calm: true},
	"table-locked":        {locks: true},
	"writes-stopped":      {},
	"documents-written":   {calm: true, blocks: true, locks: true},
	"documents-contended": {calm: true, blocks: true, locks: true},
	"fsync-locked":        {},
	"reaping":             {calm: true},
	"force-release":       {forced: true},
}

// Strategies whose promises differ, as Space.Strategy names them.
const (
	forUpdate = "for-update"
	unique    = "unique"
	mongo     = "mongo"
)

// hitBy reports whether a fault concerns the space of k.
func (k *key) hitBy(f history.Event) bool { return f.Space == "" || f.Space == k.space }

// excused reports whether an exception to P2, and so to P1, may be at work at t. A lease
// that was renewed before the fault is trusted for a TTL at most.
func (k *key) excused(t time.Duration) bool {
	for _, f := range k.faults {
		e := effects[f.Key]
		if !e.clock && !e.forced && !(e.sessions && k.on.Strategy == forUpdate) {
			continue
		}
		if k.hitBy(f) && t >= f.Begin && t <= f.End+k.on.TTL+k.slack() {
			return true
		}
	}
	return false
}

// sessionEnded reports whether the session of a hold may have ended with its server by t.
func (k *key) sessionEnded(t time.Duration) bool {
	return k.on.Strategy == forUpdate && slices.ContainsFunc(k.faults, func(f history.Event) bool {
		return effects[f.Key].failover && k.hitBy(f) && t >= f.Begin && t <= f.End+k.on.TTL+k.slack()
	})
}

// tokensRise reports whether P3 is promised at t: with UniqueInsert not from the first
// time on that the clock was set, from which its tokens come. A key that is taken over
// from hold to hold keeps the tokens of a clock that was ahead, until one is released.
func (k *key) tokensRise(t time.Duration) bool {
	if k.on.Strategy != unique {
		return true
	}
	return !k.clockSet(t)
}

// always is a time after all faults.
const always = 1<<63 - 1

// clockSet reports whether the clock of the server was ever set until t.
func (k *key) clockSet(t time.Duration) bool {
	return k.clockSetBetween(0, t)
}

// clockSetBetween reports whether the clock of the server was off at any time from one to the other.
func (k *key) clockSetBetween(from, to time.Duration) bool {
	return slices.ContainsFunc(k.faults, func(f history.Event) bool {
		return effects[f.Key].clock && k.hitBy(f) && overlaps(f, from, to)
	})
}

// undisturbed is the time from which on nothing stood in the way of the end of a hold
// until t: from itself, or the end of the last fault or freeze between. False: t
// itself is disturbed, or no time can be given any more.
func (k *key) undisturbed(from, t time.Duration) (since time.Duration, ok bool) {
	for _, f := range k.faults {
		e := effects[f.Key]
		switch {
		case !k.hitBy(f) || e.clients || f.Begin > t:
		case e.clock || f.End >= t:
			return 0, false
		default:
			from = max(from, f.End)
		}
	}
	for _, f := range k.frozen {
		if f.Begin <= t && f.End >= t {
			return 0, false
		}
		if f.End < t {
			from = max(from, f.End)
		}
	}
	return from, true
}

// disturbed reports whether anything but a client was at fault while e lasted.
func (k *key) disturbed(e history.Event) bool {
	for _, f := range k.faults {
		if k.hitBy(f) && !effects[f.Key].clients && f.Begin <= e.End && f.End >= e.Begin {
			return true
		}
	}
	return false
}

// tail is how long the database may keep a hold that nobody renews.
func (k *key) tail() time.Duration {
	if k.on.Strategy == forUpdate { // wait_timeout counts in seconds
		return (k.on.TTL + time.Second - 1).Truncate(time.Second)
	}
	return k.on.TTL
}
