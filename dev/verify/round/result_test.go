package round

import (
	"testing"
	"time"

	"github.com/rowlock/rowlock/dev/verify/history"
)

func TestGap(t *testing.T) {
	grants := times{at: []time.Duration{1, 2, 3, 10, 11, 30}, until: 33}
	for _, c := range []struct{ begin, end, want time.Duration }{
		{0, 2, 1},   // grants go on
		{4, 5, 6},   // none until 10
		{2, 20, 19}, // the one that begins before the end of the fault, however long it lasts
		{31, 40, 2}, // no grant after it, until nothing more is known
		{12, 31, 18},
	} {
		if got := grants.gap(c.begin, c.end); got != c.want {
			t.Errorf("gap %d to %d: %d, not %d", c.begin, c.end, got, c.want)
		}
	}
}

// TestService: what programs grant by themselves is no service of the database.
func TestService(t *testing.T) {
	grant := func(client string, at time.Duration, token int64) history.Event {
		return history.Event{Client: client, Space: "version", Kind: history.Acquire, Result: history.OK, Begin: at, End: at, Token: token}
	}
	s := serviceOf([]history.Event{
		grant("p1", 1, 1024), grant("p2", 1, 2048),
		grant("p1", 5, 1025), // a handoff
		grant("p1", 12, 3072), grant("p2", 30, 4096),
		{Client: "p1", Kind: history.Release, Space: "version", Begin: 60, End: 60},
		{Kind: history.Pulse, Result: history.OK, Begin: 1, End: 1}, {Kind: history.Pulse, Result: history.Failed, Begin: 3, End: 5},
		{Kind: history.Pulse, Result: history.OK, Begin: 7, End: 7},
	})
	if got := s.in["version"].gap(2, 20); got != 18 {
		t.Errorf("the space: %d, not 18", got)
	}
	if got := s.slowest("version", 2, 20); got != 48 {
		t.Errorf("the slowest program: %d, not 48, of p1, which got nothing after its last", got)
	}
	if got := s.anybody.gap(31, 40); got != 29 {
		t.Errorf("after the last grant: %d, not 29", got)
	}
	if got := s.database.gap(2, 6); got != 5 {
		t.Errorf("the database: %d, not 5", got)
	}
}

func TestAlone(t *testing.T) {
	faults := []history.Event{{Begin: 1, End: 5}, {Begin: 4, End: 6}, {Begin: 7, End: 8}}
	for i, want := range []bool{false, false, true} {
		if alone(faults, i) != want {
			t.Errorf("fault %d: alone is not %v", i, want)
		}
	}
}

func TestBrief(t *testing.T) {
	for text, want := range map[string]string{
		`acquire "1a.1/hot0": mysql: connect: dial tcp 127.0.0.1:26110: connect: connection refused`: `acquire KEY: mysql: connect: dial tcp HOST: connect: connection refused`,
		`read tcp 127.0.0.1:1->127.0.0.1:2: reset`:                                                   `read tcp HOST: reset`,
		`acquire "a/hot0": context deadline exceeded: mysql: acquire in table 1`:                     `acquire KEY: mysql: acquire in table 1`,
		`acquire "a/hot0": context deadline exceeded`:                                                ``,
		"the grant came after 1.52s, too late for a TTL of 2s\nmore":                                 "the grant came after TIME, too late for a TTL of TIME",
	} {
		if got := brief(text); got != want {
			t.Errorf("%q: %q", text, got)
		}
	}
}
