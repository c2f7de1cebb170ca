package number

import (
	"testing"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/dev/bench/internal/side"
	"github.com/rowlock/rowlock/memory"
)

// TestPlay: who gets nothing has waited for all the time; readers are beside each other, and
// none of their attempts is cut off.
func TestPlay(t *testing.T) {
	store := memory.New()
	var clients []*side.Rowlock
	for range 4 {
		c, err := rowlock.New(store, rowlock.Options{ReapInterval: -1})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close(t.Context())
		clients = append(clients, &side.Rowlock{Client: c, Store: store})
	}
	p := part{callers: clients, options: []rowlock.Option{rowlock.Shared()}, turns: 2, finish: true}
	found, err := play(t.Context(), "read", time.Minute, p)
	if err != nil || found[0].grants != 8 || len(found[0].waits) != 8 || found[0].each() != 2*4 { // a store counts for all of its clients
		t.Errorf("two turns of four readers: %+v (%v)", found[0], err)
	}
	const span = 100 * time.Millisecond
	if _, err := clients[0].Client.Acquire(t.Context(), "taken"); err != nil {
		t.Fatal(err)
	}
	found, err = play(t.Context(), "taken", span, part{callers: clients[1:]})
	if err != nil || found[0].grants > 0 || len(found[0].waits) != 3 || found[0].waits[0] < 90 {
		t.Errorf("of a key that another has: %+v (%v)", found[0], err)
	}
}
