package check

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/rowlock/rowlock/dev/verify/history"
)

// groups is P22: an AcquireAll has all its keys or none, and no two wait for each other in a
// circle. The keys of a call that got none are free within a TTL: that is of the checker
// orphan.
//
// A call waits with the keys below the one that it waits for. So of the keys that calls
// waited for, in vain, while nobody had them, the largest was had by no call that waits for
// another one: then there is a circle, or nobody noticed that it is free. Only who waited for
// seconds in a quiet time, in which all clients reached the server (else it may be had by what they are
// undoing), is asked about, and where each larger key of all calls that
// want the key was had by nobody either.
func groups(r *round) (found []Violation) {
	type name struct {
		space, client string
		id            int64
	}
	calls := make(map[name][]member)
	var names []name
	for _, k := range r.keys {
		for _, e := range k.acquires() {
			if e.Group == 0 {
				continue
			}
			n := name{k.space, e.Client, e.Group}
			if calls[n] == nil {
				names = append(names, n)
			}
			calls[n] = append(calls[n], member{k, e})
		}
	}
	byKey := make(map[*key][][]member)
	for _, n := range names {
		call := calls[n]
		for _, m := range call {
			byKey[m.key] = append(byKey[m.key], call)
		}
		// A process that is killed while it records the keys, one by one, leaves some without a result.
		known := slices.DeleteFunc(slices.Clone(call), func(m member) bool { return m.acquire.End == 0 })
		if i := slices.IndexFunc(known, func(m member) bool { return m.acquire.Result != known[0].acquire.Result }); i > 0 {
			a, b := known[0], known[i]
			found = append(found, a.key.violation("groups", "P22", []history.Event{a.acquire, b.acquire},
				"an AcquireAll has one of its keys and not another: %s of %q, %s of %q.", a.key.tell(a.acquire), a.key.name, b.key.tell(b.acquire), b.key.name))
		}
	}
	for _, n := range names {
		if v, bad := circle(calls[n], byKey); bad {
			found = append(found, v)
		}
	}
	return found
}

// member is a key of an AcquireAll.
type member struct {
	key     *key
	acquire history.Event
}

// acquires are all of a key.
func (k *key) acquires() []history.Event {
	list := slices.Clone(k.tries)
	for _, h := range k.holds {
		list = append(list, h.acquire)
	}
	return list
}

// circle judges a call by the largest of its keys that nobody had.
func circle(call []member, byKey map[*key][][]member) (v Violation, bad bool) {
	call = slices.Clone(call)
	slices.SortFunc(call, func(a, b member) int { return -strings.Compare(a.key.name, b.key.name) })
	e := call[0].acquire
	k := call[0].key
	from := e.End - k.patience()
	if e.Try || e.Begin > from || !k.quiet(from-k.tail()-k.slack(), e.End) || !k.allServed(from-k.tail()-k.slack(), e.End) {
		return v, false
	}
	for _, m := range call {
		if !m.key.idle(from, e.End) {
			continue
		}
		if !excused(m.key, from, e.End, byKey, map[*key]bool{}) {
			return m.key.violation("groups", "P22", []history.Event{m.acquire},
				"an AcquireAll waited for %v for a key that nobody had, nor any larger key of those who wanted it: %s.", k.patience(), m.key.tell(m.acquire)), true
		}
	}
	return v, false
}

// excused reports whether a call that wants the key, which nobody had, may have had it rightly
// while it waited for a larger one.
func excused(k *key, from, to time.Duration, byKey map[*key][][]member, asked map[*key]bool) bool {
	asked[k] = true
	for _, call := range byKey[k] {
		for _, m := range call {
			if m.acquire.Begin > to || k.goneAt(m.acquire.Client, m.acquire.End) < from || cmp.Compare(m.key.name, k.name) <= 0 || asked[m.key] {
				continue
			}
			if !m.key.idle(from, to) || excused(m.key, from, to, byKey, asked) {
				return true
			}
		}
	}
	return false
}
