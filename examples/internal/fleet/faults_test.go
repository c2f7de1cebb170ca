package fleet

import (
	"testing"
	"time"
)

// TestFaults: as many as asked for, one in each part of the work.
func TestFaults(t *testing.T) {
	const size = 1000
	list := Faults(3, 2, time.Second, size)
	freezes := 0
	for i, f := range list {
		if f.Freeze > 0 {
			freezes++
		}
		if part := size * 9 / 10 / len(list); f.At < i*part || f.At > (i+1)*part {
			t.Errorf("fault %d comes at %d of %d", i+1, f.At, size)
		}
	}
	if len(list) != 5 || canFreeze && freezes != 2 {
		t.Errorf("%d faults, %d of them freezes", len(list), freezes)
	}
	if list := Faults(0, 0, time.Second, size); len(list) != 0 {
		t.Errorf("%d faults where there should be none", len(list))
	}
}
