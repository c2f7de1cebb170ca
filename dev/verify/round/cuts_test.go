package round

import (
	"testing"
	"time"

	"github.com/rowlock/rowlock/dev/testenv"
	"github.com/rowlock/rowlock/dev/verify/history"
)

// TestCuts: what an address ended in a round without a failover is an event of it, at its time.
func TestCuts(t *testing.T) {
	before := history.Now()
	began := time.Now()
	cut := func(begin, end time.Duration, from, to int) testenv.Cut {
		c := testenv.Cut{Begin: began.Add(begin), From: from, To: to, Connections: 7, Why: "member 1 says that it is read-only"}
		if to >= 0 {
			c.End = began.Add(end)
		}
		return c
	}
	got := cuts([]testenv.Cut{
		cut(-3*time.Second, -2*time.Second, 1, 1), // of the round before
		cut(-2*time.Second, time.Second, 1, 1),
		cut(2*time.Second, 3*time.Second, 1, 2), // a failover
		cut(4*time.Second, 5*time.Second, 2, 2),
		cut(-time.Second, 0, 2, -1), // not led to a member yet
	}, began)
	after := history.Now()
	if len(got) != 3 {
		t.Fatalf("%d events, want 3: %+v", len(got), got)
	}
	within := func(what string, at, want time.Duration) {
		t.Helper()
		if at < before+want || at > after+want {
			t.Errorf("%s at %v, want between %v and %v", what, at, before+want, after+want)
		}
	}
	within("begin of the first", got[0].Begin, -2*time.Second)
	within("end of the first", got[0].End, time.Second)
	within("begin of the second", got[1].Begin, 4*time.Second)
	within("end of the second", got[1].End, 5*time.Second)
	within("begin of the last", got[2].Begin, -time.Second)
	within("end of the last", got[2].End, 0)
	for _, e := range got {
		if e.Kind != history.Fault || e.Key != addressCut || e.Space != "" || e.Error == "" {
			t.Errorf("event %+v", e)
		}
	}
}
