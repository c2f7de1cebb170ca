package rowlockcli

import (
	"testing"
	"time"

	"github.com/rowlock/rowlock/driver"
)

// TestWaitingText: how many programs wait is said as far as it is known.
func TestWaitingText(t *testing.T) {
	since := time.Now().Add(-3 * time.Hour)
	for _, c := range []struct {
		info          driver.Info
		column, whole string
	}{
		{driver.Info{Waiting: 1, WaitingSince: since}, "1", "1 program waits, for 3h0m"},
		{driver.Info{Waiting: 2, WaitingSince: since}, "2", "2 programs wait, the first for 3h0m"},
		{driver.Info{Waiting: 1}, "1+", "at least one program waits"},
	} {
		if got := waiting(c.info); got != c.column {
			t.Errorf("%+v: %q, want %q", c.info, got, c.column)
		}
		if got := waitingText(c.info); got != c.whole {
			t.Errorf("%+v: %q, want %q", c.info, got, c.whole)
		}
	}
	if got := waiting(driver.Info{}); got != "-" {
		t.Errorf("nobody waits: %q", got)
	}
}
