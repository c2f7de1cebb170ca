package rowlockcli

import (
	"fmt"
	"slices"
	"testing"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/memory"
)

// TestKeysEnvironment: the command is told the token and the slot of each key, in the order of the command line.
func TestKeysEnvironment(t *testing.T) {
	c, err := rowlock.New(memory.New(), rowlock.Options{Handoff: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	r := &run{locks: c, keys: []string{"b", "a"}}
	for _, other := range []string{"b", "b"} { // so that tokens and slots differ
		l, err := c.Acquire(t.Context(), other, rowlock.Slots(2))
		if err != nil {
			t.Fatal(err)
		}
		defer l.Release(t.Context())
		if l.Slot() == 0 {
			continue
		}
		if err := l.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	h, err := r.take(t.Context(), []rowlock.Option{rowlock.Slots(2)})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Release(t.Context())
	b, a := h.leases[0], h.leases[1]
	if b.Key() != "b" || b.Slot() == a.Slot() || b.Token() == a.Token() {
		t.Fatalf("%q: slots %d and %d, tokens %d and %d", b.Key(), b.Slot(), a.Slot(), b.Token(), a.Token())
	}
	want := []string{
		"ROWLOCK_KEY=b", "ROWLOCK_KEY_2=a", "ROWLOCK_KEYS=2",
		fmt.Sprint("ROWLOCK_TOKEN=", b.Token()), "ROWLOCK_SLOT=1",
		fmt.Sprint("ROWLOCK_TOKEN_2=", a.Token()), "ROWLOCK_SLOT_2=0",
	}
	if got := h.environment(true); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
