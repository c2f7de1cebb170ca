package session

import (
	"fmt"
	"testing"
)

// TestPhases: nothing is kept of keys that were never seen in a phase (P25), and of no more than
// mostPhases of the others.
func TestPhases(t *testing.T) {
	var p phases
	wants := func(key string, ever, last bool) {
		t.Helper()
		if e, l := p.known(key); e != ever || l != last {
			t.Errorf("%s: seen in a phase %v, and last %v, want %v and %v", key, e, l, ever, last)
		}
	}
	p.saw("plain", false)
	wants("plain", false, false)
	p.saw("k", true)
	wants("k", true, true)
	p.saw("k", false)
	wants("k", true, false)
	p.saw("k", true)
	for n := range 3 * mostPhases {
		p.saw(fmt.Sprint(n), true)
		if len(p.last) > mostPhases {
			t.Fatalf("%d keys are kept, want at most %d", len(p.last), mostPhases)
		}
	}
	wants("k", false, false)
}
