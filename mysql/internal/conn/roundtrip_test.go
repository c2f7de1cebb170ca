package conn

import (
	"testing"
	"time"
)

// TestTrip: one fast answer says that the server is near, slow ones in a busy moment do
// not say that it is not, and slow ones only, for long, do.
func TestTrip(t *testing.T) {
	const fast, slow = FarTrip / 10, 2 * FarTrip
	var one Trip
	now := time.Now()
	after := func(d, took time.Duration, want bool) {
		t.Helper()
		now = now.Add(d)
		one.answered(now, took)
		if one.distant() != want {
			t.Errorf("distant: %v, want %v", !want, want)
		}
	}
	after(0, slow, true)
	after(time.Second, slow, true)
	after(time.Second, fast, false)
	after(time.Second, slow, false)
	after(tripSpan, slow, false)   // the first of another span
	after(tripSpan-1, slow, false) // the last of it
	after(1, slow, true)
	after(1, fast, false)
	after(24*time.Hour, slow, false) // what was seen last stands for the time in which nothing was
	after(tripSpan, slow, true)
}
