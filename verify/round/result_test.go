package round

import (
	"testing"
	"time"

	"github.com/rowlock/rowlock/verify/history"
)

func TestGap(t *testing.T) {
	grants := []time.Duration{1, 2, 3, 10, 11, 30}
	for _, c := range []struct{ begin, end, want time.Duration }{
		{0, 2, 1},   // grants go on
		{4, 5, 6},   // none until 10
		{2, 20, 19}, // the one that begins before the end of the fault, however long it lasts
		{31, 40, 0}, // no grant after it, so nothing can be said
	} {
		if got := gap(grants, c.begin, c.end); got != c.want {
			t.Errorf("gap %d to %d: %d, not %d", c.begin, c.end, got, c.want)
		}
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
