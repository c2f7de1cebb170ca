package check

import (
	"time"

	"github.com/rowlock/rowlock/dev/verify/history"
	"github.com/rowlock/rowlock/driver"
)

// orphan is P6 and P7: an acquire that failed leaves no hold behind for longer than a
// TTL after the server executed it, and nor does a lost reply or the end of a holder.
// It looks at what an observer was told: a hold must be that of somebody who had the
// lease, or was asking for it, at most a TTL before.
//
// The TTL counts from the grant, which a busy server executes late: from the time that
// the database tells, and from the last look that did not show the hold yet. A renewal that it executes late no look
// tells. So the TTL counts anew from the end of each fault and each freeze, and of each time in which the
// server did not answer in time, or the client to whom the hold belongs did not reach it in time: it
// may execute then what it was sent before. So it sees only what lasts into a quiet
// time. A hold that goes away within the TTL it does not see at all. With UniqueInsert,
// where the row has another token than the lease, any hold or attempt of its owner
// explains it; with SelectForUpdate, where the row does not even tell the owner while
// somebody acquires, anybody's. Where readers or slots have the key it is told the owner of one
// of them, and any hold or attempt of that one explains it; how many there are is what the
// checker counted looks at.
func orphan(k *key) (found []Violation) {
	first := make(map[int64]history.Event) // by token: when a hold that nobody had was seen first
	told := make(map[int64]bool)
	var before time.Duration // when the key was last seen free, or in another hold
	var last history.Event
	for _, e := range k.observed {
		if e.Result == history.Failed {
			continue
		}
		if last.Kind != "" && (last.Result != e.Result || last.Token != e.Token) {
			before = last.Begin
		}
		last = e
		if e.Result != history.Held || told[e.Token] {
			continue
		}
		v, bad := k.outlived(e, before)
		if !bad && k.unknownToken(e) {
			if _, ok := first[e.Token]; !ok {
				first[e.Token] = e
			}
			v, bad = k.stays(first[e.Token], e)
		}
		if bad {
			told[e.Token] = true
			found = append(found, v)
		}
	}
	return found
}

// names reports whether an observation says by its token which hold it saw.
func (k *key) names(e history.Event) bool {
	return k.on.Strategy != forUpdate && k.on.Strategy != unique && e.Token > 0 && e.Mode == ""
}

// granted reports whether a token is of the grant that e saw, or of a local holder to whom
// that was handed off.
func granted(e history.Event, token int64) bool {
	return token >= e.Token && token < e.Token+driver.TokenRange
}

// unknownToken reports whether nobody had asked yet, when e saw it, who ever got that
// lease. It may go to a caller who came after the grant: one attempt serves all callers
// of a client that wait for the key.
func (k *key) unknownToken(e history.Event) bool {
	if !k.names(e) {
		return false
	}
	for _, h := range k.holds {
		if granted(e, h.acquire.Token) && h.acquire.Begin <= e.End {
			return false
		}
	}
	return true
}

// outlived reports whether e saw a hold although everybody whose it can have been had
// ended for longer than a TTL. The hold was not there yet at some time after before.
func (k *key) outlived(e history.Event, before time.Duration) (v Violation, bad bool) {
	var last history.Event
	var until time.Duration
	promise := "P6"
	see := func(by history.Event, to time.Duration, broken string) {
		if last.Kind == "" || to > until {
			last, until, promise = by, to, broken
		}
	}
	unknown := k.unknownToken(e)
	for _, h := range k.holds {
		if h.acquire.Begin > e.End {
			break
		}
		by, to := k.endOf(h)
		switch {
		case k.names(e) && !unknown:
			if granted(e, h.acquire.Token) {
				see(by, to, "P7")
			}
		case k.ownedBy(e, h.acquire) && unknown:
			see(by, to, "P6")
		case k.ownedBy(e, h.acquire):
			see(by, to, "P7")
		}
	}
	if unknown || !k.names(e) {
		for _, t := range k.tries {
			if t.Begin <= e.End && k.ownedBy(e, t) {
				see(t, k.goneAt(t.Client, t.End), "P6")
			}
		}
		for _, killed := range k.killed { // perhaps while it was asking for this key
			if killed.Begin <= e.End+k.tail()+k.slack() && k.ownedBy(e, killed) {
				see(killed, killed.End, "P6")
			}
		}
	}
	from := max(until, before)
	if e.Age > 0 {
		from = max(from, e.Begin-e.Age)
	}
	since, ok := k.undisturbed(from, e.Begin)
	if ok && (last.Kind != "" || e.Mode == history.InPhase) {
		since, ok = k.well(e.Owner, since, e.Begin, k.tail())
	}
	if !ok || e.Begin <= since+k.tail()+k.slack() && last.Kind != "" {
		return v, false
	}
	if last.Kind == "" {
		return k.violation("orphan", promise, []history.Event{e}, "a hold that nobody had or asked for: %s.", k.tell(e)), true
	}
	return k.violation("orphan", promise, []history.Event{last, e},
		"a hold that nobody has any more for %v, with a TTL of %v: %s; the last that can have had it is %s.",
		e.Begin-until, k.on.TTL, k.tell(e), k.tell(last)), true
}

// ownedBy reports whether the hold that e saw can be of the client of o.
func (k *key) ownedBy(e, o history.Event) bool {
	return k.on.Strategy == forUpdate || e.Owner == "" || e.Owner == o.Client
}

// endOf is when the holder of h stopped to renew it, and the event that tells so. A
// holder of which nothing is known goes on for ever.
func (k *key) endOf(h *hold) (history.Event, time.Duration) {
	if by, at, ok := h.ended(); ok {
		return by, at
	}
	return h.acquire, k.goneAt(h.acquire.Client, 0)
}

// goneAt is end, if there is one, or when the client was killed, or never.
func (k *key) goneAt(client string, end time.Duration) time.Duration {
	if end > 0 {
		return end
	}
	if killed, ok := k.killed[client]; ok {
		return killed.End
	}
	return 1<<63 - 1 - time.Hour
}

// stays reports whether a hold whose lease nobody ever got lasted longer than a TTL from
// the first time that it was seen: then somebody renews it. On MongoDB a caller that
// waits for an open transaction does that rightly.
func (k *key) stays(first, e history.Event) (v Violation, bad bool) {
	from := first.End
	if k.on.Strategy == mongo {
		for _, t := range k.tries {
			if t.Begin <= e.End && k.ownedBy(e, t) {
				from = max(from, k.goneAt(t.Client, t.End))
			}
		}
	}
	for _, t := range k.tries {
		if t.Group != 0 && t.Begin <= e.End && k.ownedBy(e, t) {
			from = max(from, k.goneAt(t.Client, t.End))
		}
	}
	for _, h := range k.holds {
		if a := h.acquire; a.Group != 0 && a.Begin <= e.End && k.ownedBy(e, a) {
			from = max(from, a.End)
		}
	}
	since, ok := k.undisturbed(from, e.Begin)
	if ok && len(k.reach[e.Owner]) > 0 { // a renewal that was sent before the caller left may be executed late
		since, ok = k.well(e.Owner, since, e.Begin, k.tail())
	}
	if !ok || e.Begin <= since+k.tail()+k.slack() {
		return v, false
	}
	return k.violation("orphan", "P6", []history.Event{first, e},
		"a lease that nobody got was held for %v, with a TTL of %v: %s, then %s.", e.Begin-first.End, k.on.TTL, k.tell(first), k.tell(e)), true
}
