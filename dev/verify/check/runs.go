package check

import (
	"slices"

	"github.com/rowlock/rowlock/dev/verify/history"
)

// runs is P13: the effects of a run are there once, and they are those of the caller
// whose call succeeded; the mark is there with them. A caller whose call was answered that the
// run had been, or was refused, made none of them. And P1 for LockTx: of the
// transactions that hold a key so each finds the effects of all before it, so no two
// make the effect of one number.
//
// There is no exception, but marks that somebody removes by hand, which no round does.
// Runs that nobody tried are not looked at.
func runs(k *key) (found []Violation) {
	var names []string
	tries := make(map[string][]history.Event)
	for _, e := range k.tried {
		if e.Run == "" { // it did not come so far
			continue
		}
		if tries[e.Run] == nil {
			names = append(names, e.Run)
		}
		tries[e.Run] = append(tries[e.Run], e)
	}
	rows, marks := make(map[string][]history.Event), make(map[string][]history.Event)
	for _, e := range k.effects {
		if e.Kind == history.Mark {
			marks[e.Run] = append(marks[e.Run], e)
			continue
		}
		rows[e.Run] = append(rows[e.Run], e)
		if tries[e.Run] == nil {
			found = append(found, k.violation("runs", "P13", []history.Event{e}, "an effect that nobody made: %s.", k.tell(e)))
		}
	}
	for _, name := range names {
		found = append(found, k.run(tries[name], rows[name], marks[name])...)
	}
	return found
}

// run judges one run.
func (k *key) run(tries, rows, marks []history.Event) (found []Violation) {
	promise := "P13"
	if tries[0].Kind == history.Locked {
		promise = "P1"
	}
	bad := func(events []history.Event, format string, args ...any) {
		found = append(found, k.violation("runs", promise, events, format, args...))
	}
	wrote := func(t history.Event) bool {
		return slices.ContainsFunc(rows, func(e history.Event) bool { return e.Owner == t.Client && e.Value == t.ID })
	}
	if len(rows) > 1 {
		bad(rows, "the effects of run %s are there %d times: %s and %s.", tries[0].Run, len(rows), k.tell(rows[0]), k.tell(rows[1]))
	}
	for _, t := range tries {
		switch {
		case t.Result == history.OK && !wrote(t):
			bad(append(slices.Clone(rows), t), "a caller whose call said that its effects are there has none: %s.", k.tell(t))
		case t.Result == history.Ran && len(rows) == 0:
			bad([]history.Event{t}, "a run whose effects are not there was told to have been: %s.", k.tell(t))
		case t.Result != history.OK && !undecided(t) && wrote(t):
			bad(append(slices.Clone(rows), t), "a caller that was refused has made the effects: %s.", k.tell(t))
		}
	}
	for _, e := range rows {
		if !slices.ContainsFunc(tries, func(t history.Event) bool { return t.Client == e.Owner && t.ID == e.Value }) {
			bad([]history.Event{e}, "an effect that nobody made: %s.", k.tell(e))
		}
	}
	switch marked := len(marks) > 0; {
	case promise != "P13":
	case marked && len(rows) == 0:
		bad(append(slices.Clone(marks), tries...), "a run has its mark and no effects: %s.", k.tell(marks[0]))
	case !marked && len(rows) > 0:
		bad(append(slices.Clone(rows), tries...), "a run has effects and no mark: %s.", k.tell(rows[0]))
	}
	return found
}
