package check

import (
	"slices"
	"strings"

	"github.com/rowlock/rowlock/dev/verify/history"
)

// nobody is P6: a key that nobody has is not told to be held. It looks at the keys that a client has for itself, which nobody
// else ever asks for: who is refused there while no lease of the client was held, nor being asked for, was told of a hold that
// is not there, or of one that an acquire left behind. A hold whose release or loss is not answered yet is no other's; the
// library has an error of its own for that.
//
// A wait that ends makes many attempts, of which one may have been executed later than its time; so it is asked only of those during which
// the server, and the way to it, were well. It says nothing after the server's clock was set; of an acquire after one that failed, and may have left a hold; and of times
// in which transactions of others keep rows locked, or sessions of SelectForUpdate may have outlived their holds.
func nobody(k *key) (found []Violation) {
	if k.shares() {
		return nil
	}
	for _, e := range k.tries {
		own := e.Result == history.Refused && e.Group == 0 && strings.Contains(k.name, "/"+e.Client+"/")
		if !own || !e.Try && !k.wellFor(e) || k.clockSet(e.End) || k.wanted(e) || k.left(e) || k.rowsLocked(e) || k.sessionLeft(e) {
			continue
		}
		found = append(found, k.violation("nobody", "P6", []history.Event{e}, "a key was told to be held, and nobody had it: %s.", k.tell(e)))
	}
	return found
}

// wanted reports whether somebody else had the key while e lasted, or was asking for it. Of what a process was trying when it was
// killed nothing is recorded.
func (k *key) wanted(e history.Event) bool {
	if dead, ok := k.killed[e.Client]; ok && e.End >= dead.Begin-2*(k.tail()+k.slack()) {
		return true
	}
	for _, h := range k.holds {
		if h.acquire.Begin > e.End {
			break
		}
		if _, until := k.endOf(h); until >= e.Begin {
			return true
		}
	}
	return slices.ContainsFunc(k.tries, func(t history.Event) bool {
		return t.ID != e.ID && overlaps(history.Event{Begin: t.Begin, End: k.goneAt(t.Client, t.End)}, e.Begin, e.End)
	})
}

// left reports whether an acquire before e that failed may have left a hold that is still there.
func (k *key) left(e history.Event) bool {
	return slices.ContainsFunc(k.tries, func(t history.Event) bool {
		if t.Begin >= e.Begin || t.Result == history.Refused {
			return false
		}
		since, ok := k.undisturbed(k.goneAt(t.Client, t.End), e.Begin)
		return !ok || e.Begin <= since+2*(k.tail()+k.slack())
	})
}

// wellFor reports whether the pulses show that the server did its work while e lasted, and that its client reached it.
func (k *key) wellFor(e history.Event) bool {
	return k.healthy(e.Begin, e.End, k.on.TTL/4, k.on.TTL/6) && k.served(e.Client, e.Begin, e.End)
}

// rowsLocked reports whether transactions of others may have kept rows of the space locked while e lasted. An open transaction may be
// the attempt's own too, while anything but a client is at fault: its statement was cut, or hangs in its commit.
func (k *key) rowsLocked(e history.Event) bool {
	if strings.Contains(e.Error, "pinned") && k.disturbed(e) {
		return true
	}
	return slices.ContainsFunc(k.faults, func(f history.Event) bool {
		return effects[f.Key].locks && k.hitBy(f) && overlaps(f, e.Begin, e.End)
	})
}

// sessionLeft reports whether the session of a hold may have outlived it until e: the server may have it still, and after a failover
// it keeps a key that was used for a TTL.
func (k *key) sessionLeft(e history.Event) bool {
	return k.on.Strategy == forUpdate && slices.ContainsFunc(k.faults, func(f history.Event) bool {
		effect := effects[f.Key]
		return (effect.sessions || effect.failover) && k.hitBy(f) && overlaps(f, e.Begin-k.tail()-k.slack(), e.End)
	})
}
