package main

import (
	"strings"
	"testing"
	"time"
)

// TestBook: the verdict sees a tick that ran twice, one that never ran, and an
// alert.
func TestBook(t *testing.T) {
	for name, c := range map[string]struct {
		events []event // of pods 1 and 2 in turn
		want   string  // in the verdict; empty: no error
	}{
		"each once": {[]event{
			{Tick: 1, Kind: ran}, {Tick: 1, Kind: refuse}, {Tick: 1, Kind: done},
		}, ""},
		"twice": {[]event{
			{Tick: 1, Kind: ran}, {Tick: 1, Kind: ran}, {Tick: 1, Kind: done}, {Tick: 1, Kind: done},
		}, "tick 1 ran 2 times"},
		"never": {[]event{
			{Tick: 1, Kind: refuse}, {Tick: 1, Kind: refuse},
		}, "tick 1 never ran"},
		"alert": {[]event{
			{Tick: 1, Kind: ran}, {Tick: 1, Kind: alert, Problem: "no server"}, {Tick: 1, Kind: done},
		}, "no server"},
		"unsettled": {[]event{
			{Tick: 1, Kind: ran},
		}, "not settled"},
	} {
		var out strings.Builder
		b := newBook(&schedule{Pods: 2, Ticks: 1, Period: time.Second}, time.Now(), &out)
		for i, e := range c.events {
			b.note(1+i%2, e)
		}
		err := b.verdict()
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q in it\n%s", name, err, c.want, out.String())
		}
	}
}
