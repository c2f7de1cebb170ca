package keys

import (
	"context"

	"github.com/rowlock/rowlock/internal/key"
)

// A store with lines may have a queue in the server too, which grants nothing (driver.Turner: MySQL's named locks). A client that gets
// a key while it has the turn keeps that until the key goes back. The first of the line waits for it (see listen), and so is
// woken by the release. It is a bell and nothing else: who has the key a look tells.

// waitTurn waits for the client's turn, which it neither has nor waits for. Called under Table.mu.
func (k *keyEntry) waitTurn() {
	t := k.t
	ctx, cancel := context.WithCancel(t.Open)
	k.leave, k.queued = cancel, true
	t.Store.Work.Fork(func() {
		end, err := t.turner.WaitTurn(ctx, k.id.Name)
		t.mu.Lock()
		defer t.mu.Unlock()
		left := ctx.Err() != nil
		cancel()
		if left {
			if err == nil {
				end()
			}
			return
		}
		if k.leave = nil; err == nil {
			k.turn = end
			k.step(key.Event{Kind: key.Turn})
		}
	})
}

// endTurn gives the turn to the next client.
func (k *keyEntry) endTurn() {
	if k.turn != nil {
		k.turn()
		k.turn = nil
	}
}
