package rowlockcli

import (
	"testing"
	"time"

	"github.com/rowlock/rowlock/driver"
)

// TestRenewedOrNot: a lease counts as renewed only if it ends later than the first answer allows, whatever
// the answers' trips and the server's clock were.
func TestRenewedOrNot(t *testing.T) {
	start := time.Now()
	at := func(begin, end, left time.Duration) look {
		return look{Info: driver.Info{Left: left}, begin: start.Add(begin), end: start.Add(end)}
	}
	const ms, s = time.Millisecond, time.Second
	for _, c := range []struct {
		name         string
		first, later look
		renewed      bool
	}{
		{"untouched", at(0, ms, 8*s), at(s, s+ms, 7*s), false},
		{"a slow first answer", at(0, 500*ms, 8*s), at(s, s+ms, 7*s), false},
		{"a slow first answer of a time before", at(0, 500*ms, 7500*ms), at(s, s+ms, 7*s), false},
		{"a slow second answer", at(0, ms, 8*s), at(s, 3*s, 7*s), false},
		{"a clock that is read now and then", at(0, ms, 8*s), at(s, s+ms, 7*s+20*ms), false},
		{"a clock that is a percent slow", at(0, ms, 60*s), at(30*s, 30*s+ms, 30*s+300*ms), false},
		{"renewed", at(0, ms, 8*s), at(s, s+ms, 9*s), true},
		{"renewed by a heartbeat", at(0, ms, 8*s), at(s, s+ms, 7*s+200*ms), true},
		{"renewed, a slow answer", at(0, ms, 41*s), at(20*s, 23*s, 59*s), true},
	} {
		if got := c.later.endsAfter(c.first); got != c.renewed {
			t.Errorf("%s: %v, want %v", c.name, got, c.renewed)
		}
	}
}
