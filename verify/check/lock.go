package check

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/rowlock/rowlock/verify/history"
)

// lock is P1: a key has one holder at a time. Of each hold the model has the moment of
// the grant, somewhere in its Acquire, and the end, at any time after the last call
// that said that it was held. Tokens mean nothing to it.
//
// It does not see two holders of which one never said, while the other was there,
// that it held the key.
func lock(k *key) []Violation {
	all := spans(k)
	switch decide(k, all) {
	case porcupine.Ok:
		return nil
	case porcupine.Unknown:
		return []Violation{undecidable(k, "lock", "P1")}
	}
	for i, a := range all {
		for _, b := range all[i+1:] {
			if collide(a, b) {
				return []Violation{k.violation("lock", "P1", []history.Event{a.acquire, a.last, b.acquire, b.last},
					"two held the key at once: %s held it from %s to %s at least, by %s; %s from %s to %s, by %s.",
					a.acquire.Client, k.at(a.acquire.End), k.at(a.until), k.tell(a.last),
					b.acquire.Client, k.at(b.acquire.End), k.at(b.until), k.tell(b.last))}
			}
		}
	}
	return []Violation{k.violation("lock", "P1", nil, "no order of the %d grants leaves the key to one holder at a time.", len(all))}
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

// brief tells that a hold may have been over when its acquire returned.
func (s span) brief() bool { return s.until <= s.acquire.End }

// collide reports whether neither of two holds can have been before the other. If no two
// of a key do, all of them fit: between two that follow each other there is always
// room for one that may have been brief.
func collide(a, b span) bool {
	notBefore := func(a, b span) bool {
		end := a.acquire.Begin
		if !a.brief() {
			end = a.until
		}
		return end > b.acquire.End
	}
	return notBefore(a, b) && notBefore(b, a)
}

// step is an operation of the model: somebody gets the key, gives it back, or both.
type step struct {
	holder int
	does   string
}

const (
	gets   = "gets"
	leaves = "leaves"
	visits = "gets and leaves"
)

// lockModel is a lock: the state is the number of its holder, 0 for none.
var lockModel = porcupine.Model{
	Init: func() any { return 0 },
	Step: func(state, input, _ any) (bool, any) {
		holder, s := state.(int), input.(step)
		switch s.does {
		case gets:
			return holder == 0, s.holder
		case leaves:
			return holder == s.holder, 0
		}
		return holder == 0, 0
	},
	DescribeOperation: func(input, output any) string {
		return fmt.Sprintf("#%d %s: %v", input.(step).holder, input.(step).does, output)
	},
	DescribeState: func(state any) string {
		if state.(int) == 0 {
			return "free"
		}
		return fmt.Sprintf("held by #%d", state)
	},
}

// decide asks Porcupine. Where many wait for a key each grant could have been any
// one's of them, so it gets a hint first: the order of the tokens, which is
// nearly always the true one. Only if that leads to nothing it looks at all orders.
func decide(k *key, all []span) porcupine.CheckResult {
	if moments := byTokens(all); moments != nil && porcupine.CheckOperationsTimeout(lockModel, operations(all, moments), k.Patience) == porcupine.Ok {
		return porcupine.Ok
	}
	return porcupine.CheckOperationsTimeout(lockModel, operations(all, nil), k.Patience)
}

// byTokens are moments for all grants in the order of their tokens, by their number;
// nil if they do not fit.
func byTokens(all []span) []time.Duration {
	list := slices.Clone(all)
	slices.SortStableFunc(list, func(a, b span) int { return cmp.Compare(a.acquire.Token, b.acquire.Token) })
	moments := make([]time.Duration, len(list)+1)
	var free time.Duration
	for _, s := range list {
		free = max(free, s.acquire.Begin)
		if free > s.acquire.End {
			return nil
		}
		moments[s.number] = free
		if !s.brief() {
			free = max(free, s.until)
		}
	}
	return moments
}

// operations are the steps of holds: grants at these moments, or, with none, at any
// that is possible.
func operations(all []span, moments []time.Duration) (list []porcupine.Operation) {
	for _, s := range all {
		e := s.acquire
		get := porcupine.Operation{Input: step{s.number, gets}, Output: e.Client, Call: int64(e.Begin), Return: int64(e.End)}
		if moments != nil {
			get.Call, get.Return = int64(moments[s.number]), int64(moments[s.number])
		}
		if s.brief() {
			get.Input = step{s.number, visits}
			list = append(list, get)
			continue
		}
		list = append(list, get, porcupine.Operation{
			Input: step{s.number, leaves}, Output: e.Client, Call: int64(s.until), Return: math.MaxInt64,
		})
	}
	return list
}

// undecidable is told where Porcupine gave up. To say nothing would be to say that all
// is well.
func undecidable(k *key, checker, promise string) Violation {
	return k.violation(checker, promise, nil, "it could not be decided within %v whether this key's history is possible.", k.Patience)
}
