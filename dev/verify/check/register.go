package check

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sort"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/rowlock/rowlock/dev/verify/history"
)

// register is what fencing tokens are for: a register that keeps the token of its
// last write takes a write with that token or a larger one, refuses one with a smaller,
// and a read gives the last write that it took. A write of unknown outcome may take
// effect at any later time, or never.
//
// Its promise is that of package fencing. It does not see a late write that nobody
// read and that raised no token.
func register(k *key) []Violation {
	list := calls(k.register)
	switch porcupine.CheckOperationsTimeout(registerModel, list, k.Patience) {
	case porcupine.Ok:
		return nil
	case porcupine.Unknown:
		return []Violation{undecidable(k, "register", "fencing")}
	}
	e := firstImpossible(k)
	return []Violation{k.violation("register", "fencing", append(suspects(k.register, e), e),
		"the register cannot have answered so: %s, whatever the writes of unknown outcome did.", k.tell(e))}
}

// content is the state of a register.
type content struct{ token, value int64 }

// call is an operation on a register as the model has it.
type call struct {
	write bool
	content
}

var registerModel = porcupine.Model{
	Init: func() any { return content{} },
	Step: func(state, input, output any) (bool, any) {
		now, c := state.(content), input.(call)
		if !c.write {
			return now == c.content, now
		}
		taken := c.token >= now.token
		switch output.(history.Result) {
		case history.OK:
			return taken, c.content
		case history.Stale:
			return !taken, now
		}
		if taken {
			return true, c.content
		}
		return true, now
	},
	DescribeOperation: func(input, output any) string {
		c := input.(call)
		if !c.write {
			return fmt.Sprintf("read: %d, token %d", c.value, c.token)
		}
		return fmt.Sprintf("write %d, token %d: %s", c.value, c.token, output)
	},
	DescribeState: func(state any) string {
		return fmt.Sprintf("%d, token %d", state.(content).value, state.(content).token)
	},
}

// calls are the operations of the model. A write of unknown outcome whose value was
// read took effect before that read ended; one that was not read matters only to a
// Stale that no other write explains. The others are left out: each of them would
// double the orders to think of.
func calls(events []history.Event) (list []porcupine.Operation) {
	readAt := make(map[int64]time.Duration) // by value: the end of the first read
	var unexplained []history.Event
	for _, e := range events {
		if e.Kind == history.Read && e.Result == history.OK {
			if at, ok := readAt[e.Value]; !ok || e.End < at {
				readAt[e.Value] = e.End
			}
		}
		if e.Kind == history.Write && e.Result == history.Stale && !explained(events, e) {
			unexplained = append(unexplained, e)
		}
	}
	clients := make(map[string]int)
	for _, e := range events {
		o := porcupine.Operation{Input: call{e.Kind == history.Write, content{e.Token, e.Value}}, Output: e.Result, Call: int64(e.Begin), Return: int64(e.End)}
		if _, ok := clients[e.Client]; !ok {
			clients[e.Client] = len(clients)
		}
		o.ClientId = clients[e.Client]
		switch {
		case e.Result == history.Failed, e.Kind == history.Read && e.End == 0:
			continue
		case e.Kind == history.Write && undecided(e):
			o.Output, o.Return = history.Unknown, math.MaxInt64
			needed := slices.ContainsFunc(unexplained, func(s history.Event) bool { return s.Token < e.Token && s.End >= e.Begin })
			if at, ok := readAt[e.Value]; ok {
				o.Return = int64(max(at, e.Begin))
			} else if !needed {
				continue
			}
		}
		list = append(list, o)
	}
	return list
}

// explained reports whether a larger token was certainly there when e was refused.
func explained(events []history.Event, e history.Event) bool {
	return slices.ContainsFunc(events, func(o history.Event) bool {
		return o.Result == history.OK && o.Token > e.Token && o.End < e.Begin
	})
}

// firstImpossible is the call whose answer makes the history impossible: what ended
// before it is possible without it.
func firstImpossible(k *key) history.Event {
	var answered []history.Event
	for _, e := range k.register {
		if e.End != 0 {
			answered = append(answered, e)
		}
	}
	slices.SortStableFunc(answered, func(a, b history.Event) int { return cmp.Compare(a.End, b.End) })
	i := sort.Search(len(answered)-1, func(i int) bool {
		return porcupine.CheckOperationsTimeout(registerModel, calls(until(k.register, answered[i].End)), k.Patience) == porcupine.Illegal
	})
	return answered[i]
}

// until is what was known of a history at a time: what had not been answered may have
// taken effect.
func until(events []history.Event, t time.Duration) (list []history.Event) {
	for _, e := range events {
		switch {
		case e.Begin > t:
		case e.End > t && e.Kind == history.Write:
			e.End, e.Result = 0, ""
			list = append(list, e)
		case e.End <= t:
			list = append(list, e)
		}
	}
	return list
}

// suspects are the write of the value that e read, and the last write that was taken
// before e began.
func suspects(events []history.Event, e history.Event) (list []history.Event) {
	var last history.Event
	for _, o := range events {
		if o.Kind != history.Write {
			continue
		}
		if o.Value == e.Value && o.ID != e.ID {
			list = append(list, o)
		}
		if o.Result == history.OK && o.End < e.Begin && o.End > last.End {
			last = o
		}
	}
	if last.Kind != "" && (len(list) == 0 || list[0].ID != last.ID || list[0].Client != last.Client) {
		list = append(list, last)
	}
	return list
}
