package round

import (
	"slices"
	"time"

	"github.com/rowlock/rowlock/dev/verify/history"
)

// service is when programs got something from the database. What they granted by themselves does not count: it says nothing of it.
type service struct {
	database *times                       // writes of one row, on new connections
	anybody  *times                       // grants to anybody
	in       map[string]*times            // the same by space
	programs map[string]map[string]*times // and by program
}

// times are moments in their order, seen until the last one.
type times struct {
	at    []time.Duration
	until time.Duration // the last thing that is known
}

func (t *times) seen(e history.Event) { t.until = max(t.until, e.Begin, e.End) }

func serviceOf(events []history.Event) *service {
	s := &service{database: &times{}, anybody: &times{}, in: map[string]*times{}, programs: map[string]map[string]*times{}}
	read := reads{}
	for _, e := range events {
		switch e.Kind {
		case history.Pulse:
			s.database.seen(e)
			if e.Result == history.OK {
				s.database.at = append(s.database.at, e.End)
			}
			continue
		case history.Fault, history.Frozen, history.Killed, history.Observe:
			continue
		}
		if s.in[e.Space] == nil {
			s.in[e.Space], s.programs[e.Space] = &times{}, map[string]*times{}
		}
		program := s.programs[e.Space][e.Client]
		if program == nil {
			program = &times{}
			s.programs[e.Space][e.Client] = program
		}
		granted := e.Kind == history.Acquire && e.Result == history.OK && !read.local(e)
		for _, t := range []*times{s.anybody, s.in[e.Space], program} {
			t.seen(e)
			if granted {
				t.at = append(t.at, e.End)
			}
		}
	}
	slices.Sort(s.database.at)
	slices.Sort(s.anybody.at)
	for space, t := range s.in {
		slices.Sort(t.at)
		for _, program := range s.programs[space] {
			slices.Sort(program.at)
		}
	}
	return s
}

// slowest is the longest gap of a program that was granted something in the space before begin.
func (s *service) slowest(space string, begin, end time.Duration) (longest time.Duration) {
	for _, t := range s.programs[space] {
		if len(t.at) > 0 && t.at[0] < begin {
			longest = max(longest, t.gap(begin, end))
		}
	}
	return longest
}

// gap is the longest time between two moments, or from begin to one, of those times that start between begin and end. Where none
// follows, it lasts until the last thing that is known.
func (t *times) gap(begin, end time.Duration) (longest time.Duration) {
	i, _ := slices.BinarySearch(t.at, begin)
	last := begin
	for ; i < len(t.at) && last <= end; i++ {
		longest = max(longest, t.at[i]-last)
		last = t.at[i]
	}
	if i == len(t.at) && last <= end {
		longest = max(longest, t.until-last)
	}
	return longest
}
