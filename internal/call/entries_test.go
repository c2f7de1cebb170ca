package call

import (
	"testing"

	"github.com/rowlock/rowlock/driver"
)

// TestEntries: several holds of a key go together only if all may be beside each other.
func TestEntries(t *testing.T) {
	var e Entries
	for i, tc := range []struct {
		hold driver.Hold
		want bool
	}{
		{driver.Hold{Key: "a", ID: driver.HoldID{1}}, true},
		{driver.Hold{Key: "a", ID: driver.HoldID{2}}, false},
		{driver.Hold{Key: "a", ID: driver.HoldID{3}, Mode: driver.Shared}, false},
		{driver.Hold{Key: "b", ID: driver.HoldID{1}, Mode: driver.Slot}, true},
		{driver.Hold{Key: "b", ID: driver.HoldID{2}, Mode: driver.Slot}, true},
		{driver.Hold{Key: "b", ID: driver.HoldID{3}, Mode: driver.Shared}, true},
		{driver.Hold{Key: "b", ID: driver.HoldID{2}, Mode: driver.Slot}, false},
		{driver.Hold{Key: "b", ID: driver.HoldID{4}}, false},
		{driver.Hold{Key: "c", ID: driver.HoldID{1}}, true},
	} {
		if got := e.Add(Entry(&tc.hold)); got != tc.want {
			t.Errorf("hold %d (%q, %v) goes with the others: %v, want %v", i, tc.hold.Key, tc.hold.Mode, got, tc.want)
		}
	}
}
