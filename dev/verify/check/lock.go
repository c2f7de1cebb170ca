package check

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/rowlock/rowlock/dev/verify/history"
)

// lock is P1, P16 and P17: a key has one exclusive holder at a time, or readers and slots beside
// each other, each slot once. Of each hold the model has the moment of the grant, somewhere
// in its Acquire, and the end, at any time after the last call that said that it was held.
// Tokens mean nothing to it.
//
// It does not see two holders of which one never said, while the other was there,
// that it held the key.
func lock(k *key) []Violation {
	all := spans(k)
	moments, bad := place(all)
	if moments != nil {
		if porcupine.CheckOperationsTimeout(lockModel, operations(all, moments), k.Patience) == porcupine.Ok {
			return nil
		}
		return []Violation{undecidable(k, "lock", "P1")}
	}
	// That some of the holds cannot be together is a judgement on them all.
	switch porcupine.CheckOperationsTimeout(lockModel, operations(bad, nil), k.Patience) {
	case porcupine.Ok, porcupine.Unknown:
		return []Violation{undecidable(k, "lock", "P1")}
	}
	a := bad[0]
	var events []history.Event
	text := ""
	for _, b := range bad[1:] {
		events = append(events, b.acquire, b.last)
		text += fmt.Sprintf("; %s from %s to %s, by %s", b.who(), k.at(b.acquire.End), k.at(b.until), k.tell(b.last))
	}
	if a.brief() {
		return []Violation{k.violation("lock", exclusion(a.hold, bad[1].hold), append(events, a.acquire),
			"%s was granted the key by %s, while others held it all the time%s.", a.who(), k.tell(a.acquire), text)}
	}
	return []Violation{k.violation("lock", exclusion(a.hold, bad[1].hold), append([]history.Event{a.acquire, a.last}, events...),
		"two held the key at once: %s held it from %s to %s at least, by %s%s.",
		a.who(), k.at(a.acquire.End), k.at(a.until), k.tell(a.last), text)}
}

// span is a hold as the model has it.
type span struct {
	*hold
	number int
	last   history.Event // that said so
	until  time.Duration // it was held; not after acquire.End: nobody said anything
}

// spans are the holds of k in the order in which their acquires ended.
func spans(k *key) []span {
	list := make([]span, len(k.holds))
	for i, h := range k.holds {
		last, until := k.heldUntil(h)
		list[i] = span{hold: h, last: last, until: until}
	}
	slices.SortStableFunc(list, func(a, b span) int { return cmp.Compare(a.acquire.End, b.acquire.End) })
	for i := range list {
		list[i].number = i + 1
	}
	return list
}

// who is its holder, with its mode.
func (s span) who() string {
	if c := s.class(); c != "" {
		return fmt.Sprintf("%s (%s)", s.acquire.Client, c)
	}
	return s.acquire.Client
}

// brief tells that a hold may have been over when its acquire returned.
func (s span) brief() bool { return s.until <= s.acquire.End }

// step is an operation of the model: somebody gets the key, gives it back, or both.
type step struct {
	holder int
	mode   history.Mode
	slot   int
	does   string
}

const (
	gets   = "gets"
	leaves = "leaves"
	visits = "gets and leaves"
)

// holding is who has a key.
type holding struct {
	writer  int    // the number of an exclusive holder; 0: none
	readers int    // they commute, so they need no names
	slots   uint64 // a bit each
}

// mostSlots is how many slots of a key the model can have.
const mostSlots = 64

// lockModel is a lock with readers, slots and exclusive holders.
var lockModel = porcupine.Model{
	Init: func() any { return holding{} },
	Step: func(state, input, _ any) (bool, any) {
		now, s := state.(holding), input.(step)
		next := now
		free := now.writer == 0
		switch s.mode {
		case history.Shared:
			if next.readers++; s.does == leaves {
				next.readers -= 2
				free = now.readers > 0
			}
		case history.Slot:
			next.slots ^= 1 << s.slot
			free = free && (next.slots > now.slots) == (s.does != leaves)
		default:
			free, next.writer = now == holding{}, s.holder
			if s.does == leaves {
				free, next.writer = now.writer == s.holder, 0
			}
		}
		if s.does == visits {
			next = now
		}
		return free, next
	},
	DescribeOperation: func(input, output any) string {
		s := input.(step)
		return strings.TrimSpace(fmt.Sprintf("#%d %s: %v %s", s.holder, s.does, output, s.mode))
	},
	DescribeState: func(state any) string {
		s := state.(holding)
		switch {
		case s.writer != 0:
			return fmt.Sprintf("held by #%d", s.writer)
		case s == holding{}:
			return "free"
		}
		return fmt.Sprintf("%d readers, slots %b", s.readers, s.slots)
	},
}

// operations are the steps of holds: grants at these moments, or, with none, at any
// that is possible.
func operations(all []span, moments []time.Duration) (list []porcupine.Operation) {
	for _, s := range all {
		e := s.acquire
		get := porcupine.Operation{Input: step{s.number, e.Mode, e.Slot, gets}, Output: e.Client, Call: int64(e.Begin), Return: int64(e.End)}
		if moments != nil {
			get.Call, get.Return = int64(moments[s.number]), int64(moments[s.number])
		}
		if s.brief() {
			get.Input = step{s.number, e.Mode, e.Slot, visits}
			list = append(list, get)
			continue
		}
		list = append(list, get, porcupine.Operation{
			Input: step{s.number, e.Mode, e.Slot, leaves}, Output: e.Client, Call: int64(s.until), Return: math.MaxInt64,
		})
	}
	return list
}

// undecidable is told where Porcupine gave up. To say nothing would be to say that all
// is well.
func undecidable(k *key, checker, promise string) Violation {
	return k.violation(checker, promise, nil, "it could not be decided within %v whether this key's history is possible.", k.Patience)
}
