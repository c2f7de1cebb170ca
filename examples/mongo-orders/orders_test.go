package main

import (
	"io"
	"testing"
	"time"
)

// TestWrongBooks: the verdict sees every way to fulfil wrongly.
func TestWrongBooks(t *testing.T) {
	came, one, two := movement{Product: 1, Units: 100}, movement{Product: 1, Order: 1, Units: -3}, movement{Product: 1, Order: 2, Units: -5}
	for name, c := range map[string]struct {
		lines []movement
		left  int
		wrong bool
	}{
		"each once":               {[]movement{came, one, two}, 92, false},
		"one twice":               {[]movement{came, one, two, two}, 87, true},
		"one never":               {[]movement{came, one}, 97, true},
		"one twice, one never":    {[]movement{came, one, one}, 94, true},
		"a stock that is off":     {[]movement{came, one, two}, 93, true},
		"less than nothing":       {[]movement{one, two}, -8, true},
		"nothing":                 {nil, 0, true},
		"more units than ordered": {[]movement{came, one, {Product: 1, Order: 2, Units: -6}}, 91, true},
	} {
		b := books{Orders: 2, Ordered: 8}
		b.add(c.lines, []product{{ID: 1, Left: c.left}})
		if errs := b.wrong(); (errs != nil) != c.wrong {
			t.Errorf("%s: %v", name, errs)
		}
	}
}

// TestAlerts: an error is an alert, unless its worker has just stood still.
func TestAlerts(t *testing.T) {
	r := newReport(io.Discard, 10)
	alerted := func() int {
		r.heard(1, event{Kind: alert, Problem: "no answer"})
		return len(r.Alerts)
	}
	r.Frozen(1, time.Second)
	r.Thawed(1)
	if n := alerted(); n != 0 {
		t.Errorf("%d alerts of a worker that just stood still", n)
	}
	r.heard(1, event{Kind: round})
	if n := alerted(); n != 1 {
		t.Errorf("%d alerts, want 1", n)
	}
}
