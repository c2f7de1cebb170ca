package rowlock

import (
	"cmp"
	"context"
	"slices"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/undo"
)

// A caller that does not wait is told who has the key. Where the answer to its attempt does not say so
// (driver.Result.Owner), the key is read once more.

// holderReads reads who has the keys that were refused. One statement is on its way at a time; keys that are asked for
// meanwhile share the next one. Guarded by Client.mu.
type holderReads struct {
	next    *holderRead // that has not begun; nil: nobody asks
	running bool
}

// holderRead is one statement.
type holderRead struct {
	keys  []string
	done  chan struct{}
	infos map[string]driver.Info // of the keys that were read; written before done is closed
}

// nameHolder adds who has the key to err, the refusal of an attempt for a caller that does not wait. ctx bounds the wait
// for that; where it cannot be known the error stays as it is.
func (c *Client) nameHolder(ctx context.Context, id keyID, slots int, err error) error {
	held := refusal(err)
	if held == nil || held.Owner != "" || held.Waiting > 0 {
		return err
	}
	c.mu.Lock()
	here := refusal(c.heldHere(id))
	c.mu.Unlock()
	if here != nil {
		held.Owner, held.Left = here.Owner, cmp.Or(held.Left, here.Left)
		return err
	}
	info, read := c.readHolder(ctx, id.name)
	if !read {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case held.Pinned:
		if info.Pinned && !info.Held {
			held.Owner = info.Owner // whose transaction must end; of a key that others have taken and given back it is not known
		}
	case freeFor(id.mode, slots, info), c.heldHere(id) != nil:
		// Who refused the attempt has it no more.
	case c.metOwn(id, &HeldError{Key: id.name, Owner: info.Owner}, undo.Left{}):
		return ErrReleasing
	default:
		held.Owner, held.Left = info.Owner, cmp.Or(held.Left, info.Left)
		held.Shared = held.Shared || info.InPhase() && id.mode == driver.Exclusive
	}
	return err
}

// readHolder reads the state of a key; false: that was not answered before ctx or the client ended.
func (c *Client) readHolder(ctx context.Context, key string) (info driver.Info, read bool) {
	r := c.joinHolderRead(key)
	if r == nil {
		return info, false
	}
	select {
	case <-r.done:
		info, read = r.infos[key]
	case <-ctx.Done():
	case <-c.open.Done():
	}
	return info, read
}

// joinHolderRead adds key to the next statement; nil: the client is closed.
func (c *Client) joinHolderRead(key string) *holderRead {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil
	}
	s := &c.holderReads
	if s.next == nil {
		s.next = &holderRead{done: make(chan struct{}), infos: make(map[string]driver.Info)}
	}
	if !slices.Contains(s.next.keys, key) {
		s.next.keys = append(s.next.keys, key)
	}
	if !s.running {
		s.running = true
		c.store.Work.Fork(c.runHolderReads)
	}
	return s.next
}

// runHolderReads reads until nobody asks.
func (c *Client) runHolderReads() {
	for {
		c.mu.Lock()
		r := c.holderReads.next
		c.holderReads.next, c.holderReads.running = nil, r != nil
		c.mu.Unlock()
		if r == nil {
			return
		}
		for keys := range slices.Chunk(r.keys, c.store.Limits.Batch) {
			infos, err := c.store.AskInspect(c.open, c.open, keys, probeTimeout)
			if err != nil {
				break
			}
			for i, info := range infos {
				r.infos[keys[i]] = info
			}
		}
		close(r.done)
	}
}
