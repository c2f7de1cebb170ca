package cluster

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rowlock/rowlock/mysql/internal/conn"
)

// Seen is what was learned of one server.
type Seen struct {
	Addr string
	View View
	Err  error // it gave no answer
	Hung bool  // it gave none when it was the one that took writes, and was left for another
}

// Choose is the index of the server that takes writes. The error names all that were asked, and what each said.
func Choose(seen []Seen) (int, error) {
	var able []int
	for i, s := range seen {
		if s.Err == nil && s.View.ReadOnly == "" && s.View.NotReady == "" && !known(seen, able, i) {
			able = append(able, i)
		}
	}
	switch len(able) {
	case 0:
		return -1, none(seen)
	case 1:
		return able[0], nil
	}
	for _, narrow := range []func([]Seen, []int) []int{inOrder, named, acknowledged, notHung} {
		if few := narrow(seen, able); len(few) == 1 {
			return few[0], nil
		}
	}
	return -1, several(seen, able)
}

// known reports whether another address leads to the same server.
func known(seen []Seen, able []int, i int) bool {
	return slices.ContainsFunc(able, func(j int) bool {
		return seen[j].View.Server == seen[i].View.Server && seen[j].View.ID == seen[i].View.ID
	})
}

// inOrder is the first where all take writes, so that all programs take the same: nodes of Galera, and members of a
// group of several primaries.
func inOrder(seen []Seen, able []int) []int {
	for _, i := range able {
		if v := &seen[i].View; v.Kind == Galera || v.Kind == Group && len(v.primaries()) > 1 {
			return able[:1]
		}
	}
	return nil
}

// named is the one that most members of the group call the primary.
func named(seen []Seen, able []int) (few []int) {
	votes := make(map[string]int)
	for _, s := range seen {
		if s.Err == nil && s.View.takesPart() {
			for _, id := range s.View.primaries() {
				votes[id]++
			}
		}
	}
	most := 0
	for _, i := range able {
		switch n := votes[seen[i].View.ID]; {
		case n > most:
			most, few = n, []int{i}
		case n == most && n > 0:
			few = append(few, i)
		}
	}
	return few
}

// takesPart reports whether the server is a member of its group in good standing, by its own word.
func (v *View) takesPart() bool {
	return slices.ContainsFunc(v.Members, func(m Member) bool { return m.ID == v.ID && m.State == "ONLINE" })
}

// acknowledged are those that have replicas which acknowledge: what another writes is never committed.
func acknowledged(seen []Seen, able []int) (few []int) {
	for _, i := range able {
		if seen[i].View.Kind == SemiSync && seen[i].View.Replicas > 0 {
			few = append(few, i)
		}
	}
	return few
}

// notHung are those that were not left because they gave no answer.
func notHung(seen []Seen, able []int) (few []int) {
	for _, i := range able {
		if !seen[i].Hung {
			few = append(few, i)
		}
	}
	return few
}

// ErrNoPrimary is matched where none, or more than one, takes writes.
var ErrNoPrimary = errors.New("no one server takes writes")

// none says why none of them serves. What a server answered, such as that it does not know the user, is a cause only
// where all answered so: a node that is being set up may not know its users yet.
func none(seen []Seen) error {
	parts := make([]string, len(seen))
	causes := []error{ErrNoPrimary}
	refused := !slices.ContainsFunc(seen, func(s Seen) bool { return conn.Number(s.Err) == 0 })
	for i, s := range seen {
		switch {
		case s.Err != nil:
			parts[i] = fmt.Sprintf("%s: %v", s.Addr, s.Err)
			if refused || conn.Number(s.Err) == 0 {
				causes = append(causes, s.Err)
			}
		case s.View.NotReady != "":
			parts[i] = s.Addr + ": " + s.View.NotReady
		default:
			parts[i] = s.Addr + ": " + s.View.ReadOnly + " is on"
		}
	}
	return &choiceError{text: "none of the servers takes writes: " + strings.Join(parts, "; "), causes: causes}
}

// several names those that all say that they take writes.
func several(seen []Seen, able []int) error {
	causes := []error{ErrNoPrimary}
	var names []string
	for _, i := range able {
		names = append(names, seen[i].Addr)
		if err := seen[i].View.NoAccess; err != nil {
			causes = append(causes, err)
		}
	}
	text := strings.Join(names, " and ") + " all take writes, and nothing tells which is the primary: make the others read-only"
	if len(causes) > 1 {
		text += fmt.Sprintf(", or let the user see the group: %v", causes[1])
	}
	return &choiceError{text: text, causes: causes}
}

// choiceError keeps the causes, whose texts its own has already.
type choiceError struct {
	text   string
	causes []error
}

func (e *choiceError) Error() string   { return e.text }
func (e *choiceError) Unwrap() []error { return e.causes }
