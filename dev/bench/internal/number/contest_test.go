package number

import (
	"strings"
	"testing"
	"time"
)

// TestContestParse: what cannot be measured is refused before anything is, by its flag and
// with what is right.
func TestContestParse(t *testing.T) {
	good := Contest{Processes: 4, Keys: 1, TTL: time.Second, Window: time.Second}
	if err := good.Parse("0, 20ms"); err != nil || len(good.rtts) != 2 || good.rtts[1] != 20*time.Millisecond {
		t.Errorf("rtts %v, %v", good.rtts, err)
	}
	for want, change := range map[string]func(*Contest) string{
		`-rtt: "5" is no duration such as 20ms`: func(*Contest) string { return "5" },
		"-rtt 2s: use 0 to 1s":                  func(*Contest) string { return "2s" },
		"-processes 0: use 1 to 128":            func(c *Contest) string { c.Processes = 0; return "0" },
		"-keys 0: use 1 to ":                    func(c *Contest) string { c.Keys = 0; return "0" },
		"-hold 1h0m0s: use 0 to 1m":             func(c *Contest) string { c.Hold = time.Hour; return "0" },
		"-ttl 1ms: use 100ms to 24h":            func(c *Contest) string { c.TTL = time.Millisecond; return "0" },
		"-window 1ms: use 100ms to 10m":         func(c *Contest) string { c.Window = time.Millisecond; return "0" },
	} {
		c := Contest{Processes: 4, Keys: 1, TTL: time.Second, Window: time.Second}
		if err := c.Parse(change(&c)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
