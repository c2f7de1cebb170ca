package check

import (
	"cmp"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/rowlock/rowlock/dev/verify/history"
)

// Violation is one finding.
type Violation struct {
	Checker string
	Promise string // "P2"
	Space   string
	Key     string
	Text    string          // what happened, with times since the begin of the round
	Events  []history.Event // those that contradict each other
}

// Options says how to judge. ForRound makes them.
type Options struct {
	Spaces   map[string]history.Space // TTL and Strategy of each space in the history
	Begin    time.Duration            // of the round: texts count from here; default: the first event
	Slack    time.Duration            // how late a server may execute what it was sent, without a fault; default a quarter of the space's TTL
	Kept     time.Duration            // the least TTL with which P26 is promised; default 3s
	Turn     time.Duration            // how long a caller must have waited before it is asked whose turn it was; default 3s, or a TTL if that is longer
	Back     time.Duration            // how long after its database a program may be back; default 2s
	Patience time.Duration            // how long Porcupine may think about a key; default 30s. What it cannot decide is a Violation too
}

// ForRound are the options for a round with this meta.json.
func ForRound(m history.Meta) Options {
	return Options{Spaces: m.Spaces, Begin: m.Begin}
}

// checkers judge one key each; groups judges all.
var checkers = []func(*key) []Violation{loss, lock, tokens, stale, ledger, register, orphan, conflict, runs, reaped, kept, slots, phases, guards, counted, turns, fair, lead, nobody}

// Run judges a history. A history that is not whole is not judged any further: its
// violations are all of the checker shape. The violations of a key come in the order
// of the time.
//
// A lock that had two holders at once is told by the checkers loss and tokens too, if
// looks or tokens show it, and they know better what happened. So lock speaks for
// keys of which they have nothing to say.
func Run(events []history.Event, o Options) []Violation {
	r := newRound(events, o)
	if bad := shape(r); len(bad) > 0 {
		return bad
	}
	found := make([][]Violation, len(r.keys))
	work := make(chan int)
	var all sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		all.Go(func() {
			for i := range work {
				found[i] = judge(r.keys[i])
			}
		})
	}
	for i := range r.keys {
		work <- i
	}
	close(work)
	all.Wait()
	return slices.Concat(slices.Concat(found...), groups(r), back(r))
}

func judge(k *key) (found []Violation) {
	for _, check := range checkers {
		found = append(found, check(k)...)
	}
	explained := slices.ContainsFunc(found, func(v Violation) bool { return v.Checker == "loss" || v.Checker == "tokens" })
	if explained {
		found = slices.DeleteFunc(found, func(v Violation) bool { return v.Checker == "lock" })
	}
	slices.SortStableFunc(found, func(a, b Violation) int { return cmp.Compare(lastBegin(a), lastBegin(b)) })
	return found
}

// lastBegin is when the last of a violation's events began: it was not wrong before.
func lastBegin(v Violation) (last time.Duration) {
	for _, e := range v.Events {
		last = max(last, e.Begin)
	}
	return last
}
