package round

import (
	"slices"
	"time"

	"github.com/rowlock/rowlock/verify/history"
)

// service is when programs got something from the database. What they granted by themselves does not count: it says nothing of it.
type service struct {
	database *times            // writes of one row, on new connections
	anybody  *times            // grants to anybody
	programs map[string]*times // when a program did anything, by its name
	grants   map[program]*times
}

// program is one that takes locks in a space.
type program struct{ space, client string }

// times are moments in their order, seen until the last one.
type times struct {
	at          []time.Duration
	from, until time.Duration // the first and the last thing that is known
}

func (t *times) seen(e history.Event) {
	if t.until == 0 || e.Begin < t.from {
		t.from = e.Begin
	}
	t.until = max(t.until, e.Begin, e.End)
}

func serviceOf(events []history.Event) *service {
	s := &service{database: &times{}, anybody: &times{}, programs: map[string]*times{}, grants: map[program]*times{}}
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
		if s.programs[e.Client] == nil {
			s.programs[e.Client] = &times{}
		}
		s.programs[e.Client].seen(e)
		if e.Kind != history.Acquire || e.Result != history.OK || read.local(e) {
			continue
		}
		p := program{e.Space, e.Client}
		if s.grants[p] == nil {
			s.grants[p] = &times{}
		}
		for _, t := range []*times{s.anybody, s.grants[p]} {
			t.seen(e)
			t.at = append(t.at, e.End)
		}
	}
	slices.Sort(s.database.at)
	slices.Sort(s.anybody.at)
	for _, t := range s.grants {
		slices.Sort(t.at)
	}
	return s
}

// slowest is the longest gap of a program that takes locks in a space, of those that were there from begin to end; ok: false where none was.
func (s *service) slowest(space string, begin, end time.Duration) (longest time.Duration, ok bool) {
	for p, t := range s.grants {
		seen := s.programs[p.client]
		if p.space != space || seen.from > begin || seen.until < end {
			continue
		}
		grants := times{at: t.at, until: seen.until}
		longest, ok = max(longest, grants.gap(begin, end)), true
	}
	return longest, ok
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
