package testserver

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestPatience(t *testing.T) {
	end, ok := t.Deadline()
	switch d := Patience(t); {
	case !ok && d != time.Hour:
		t.Errorf("%v without a time-out, want an hour", d)
	case ok && d > time.Until(end)/8+time.Second:
		t.Errorf("%v, and the time-out is in %v", d, time.Until(end))
	}
	synctest.Test(t, func(t *testing.T) {
		if d := Patience(t); d != time.Hour {
			t.Errorf("%v in a bubble, want an hour", d)
		}
	})
	if d := Patience(&testing.B{}); d != time.Hour {
		t.Errorf("%v in a benchmark, want an hour", d)
	}
}
