package round

import (
	"slices"
	"time"

	"github.com/rowlock/rowlock/verify/history"
)

// service is when programs got something from the database. What they granted by themselves does not count: it says nothing of it. Of one
// program alone nothing is said, which may want nothing for a while: whether each comes back is for the checker of P27.
type service struct {
	database *times            // writes of one row, on new connections
	anybody  *times            // grants to anybody
	in       map[string]*times // the same by space
}

// times are moments in their order, seen until the last one.
type times struct {
	at    []time.Duration
	until time.Duration // the last thing that is known
}

func (t *times) seen(e history.Event) { t.until = max(t.until, e.Begin, e.End) }

func serviceOf(events []history.Event) *service {
	s := &service{database: &times{}, anybody: &times{}, in: map[string]*times{}}
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
			s.in[e.Space] = &times{}
		}
		granted := e.Kind == history.Acquire && e.Result == history.OK && !read.local(e)
		for _, t := range []*times{s.anybody, s.in[e.Space]} {
			t.seen(e)
			if granted {
				t.at = append(t.at, e.End)
			}
		}
	}
	slices.Sort(s.database.at)
	slices.Sort(s.anybody.at)
	for _, t := range s.in {
		slices.Sort(t.at)
	}
	return s
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
