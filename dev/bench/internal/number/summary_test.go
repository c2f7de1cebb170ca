package number

import "testing"

// TestOverlaps: two processes have one key at the same time, or two keys.
func TestOverlaps(t *testing.T) {
	had := func(key string, from, to int64) contested {
		return contested{Stints: []stint{{Key: key, Got: from, End: to, Holds: 1}}, Turns: []int{1}}
	}
	for _, tc := range []struct {
		name                string
		of                  []contested
		overlaps, handovers int
	}{
		{"one key", []contested{had("a", 1, 10), had("a", 5, 20)}, 1, 1},
		{"one after the other", []contested{had("a", 1, 10), had("a", 11, 20)}, 0, 1},
		{"two keys", []contested{had("a", 1, 10), had("b", 5, 20)}, 0, 0},
	} {
		s := summarize(tc.of)
		if s.overlaps != tc.overlaps || len(s.handovers) != tc.handovers {
			t.Errorf("%s: %d overlaps, %d hand-overs, want %d and %d", tc.name, s.overlaps, len(s.handovers), tc.overlaps, tc.handovers)
		}
	}
}
