package main

import (
	"strings"
	"testing"
	"time"
)

// TestBook: the verdict sees a run that came too soon, one beside another, and an old token.
func TestBook(t *testing.T) {
	at := func(d time.Duration) time.Time { return time.Unix(0, 0).Add(d) }
	began := func(token int64, d time.Duration) event {
		return event{Began: true, Token: token, At: at(d), Since: at(d)}
	}
	ended := func(token int64, d time.Duration) event { return event{Token: token, At: at(d)} }
	for name, c := range map[string]struct {
		events []event // of pods 1 and 2 in turn
		want   string  // in the verdict; empty: no error
	}{
		"each once": {[]event{began(1, 0), ended(1, 0), began(2, time.Second), ended(2, time.Second)}, ""},
		"too soon":  {[]event{began(1, 0), ended(1, 0), began(2, time.Second/2)}, "500ms after"},
		"beside":    {[]event{began(1, 0), began(2, time.Second), ended(1, time.Minute)}, "while pod 1 was at"},
		"no end":    {[]event{began(1, 0), began(2, time.Second)}, "while pod 1 was at"},
		"old token": {[]event{began(2, 0), ended(2, 0), began(1, time.Second)}, "has token 1, after 2"},
	} {
		var out strings.Builder
		b := newBook(&schedule{Pods: 2, Runs: 2, Period: time.Second}, &out)
		for i, e := range c.events {
			b.note(1+i%2, e)
		}
		err := b.verdict()
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q in it\n%s", name, err, c.want, out.String())
		}
	}
}
