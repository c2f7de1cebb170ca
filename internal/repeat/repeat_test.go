package repeat

import (
	"slices"
	"testing"
	"time"
)

// TestSilence: what was silent for long is repeated at once; what fails at once is repeated
// less and less often.
func TestSilence(t *testing.T) {
	const ms = time.Millisecond
	var s Silence
	var got []time.Duration
	for _, took := range []time.Duration{time.Second, 0, 0, 0, ms, silentAtLeast, 0, 0} {
		got = append(got, s.Pause(took))
	}
	if want := []time.Duration{0, 0, 10 * ms, 20 * ms, 40 * ms, 0, 0, 10 * ms}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	for range 100 {
		s.Pause(0)
	}
	if d := s.Pause(0); d != lastPause {
		t.Errorf("in the end %v, want %v", d, lastPause)
	}
}
