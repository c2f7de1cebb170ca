package rowlock

import (
	"context"
	"fmt"
	"time"

	"github.com/rowlock/rowlock/driver"
)

// Info is what the database knows of a key, by the database's clock.
type Info = driver.Info

// inspectPatience bounds an Inspect whose caller would wait for ever.
const inspectPatience = 30 * time.Second

// Inspect asks the database who has key. It changes nothing and needs no lease.
// A key that was never locked gives an Info that is not Held. Errors: ErrInvalid,
// ErrClosed, ErrSchema, the database's own, ctx's. ctx bounds the wait, as the client
// does: after 30 seconds without an answer the error matches context.DeadlineExceeded.
func (c *Client) Inspect(ctx context.Context, key string) (Info, error) {
	switch {
	case c == nil:
		return Info{Key: key}, fmt.Errorf("inspect %q: %w: the Client is nil", key, ErrInvalid)
	case ctx == nil:
		return Info{Key: key}, fmt.Errorf("inspect %q: %w: the context is nil", key, ErrInvalid)
	}
	if err := checkKey(key); err != nil {
		return Info{Key: key}, err
	}
	if c.isClosed() {
		return Info{Key: key}, fmt.Errorf("inspect %q: %w", key, ErrClosed)
	}
	if ctx.Err() != nil {
		return Info{Key: key}, fmt.Errorf("inspect %q: %w", key, waitError(ctx, nil))
	}
	infos, err := c.store.AskInspect(ctx, c.open, []string{key}, inspectPatience)
	if err == nil && c.line.store != nil {
		var lines []driver.Line
		if lines, err = c.store.AskLines(ctx, c.open, c.line.store, []string{key}, inspectPatience); err == nil {
			lines[0].Inform(&infos[0])
		}
	}
	if err != nil {
		if err == ctx.Err() {
			err = waitError(ctx, c.waitCause(nil))
		}
		return Info{Key: key}, fmt.Errorf("inspect %q: %w", key, err)
	}
	return infos[0], nil
}

// Stats is a snapshot of what a Client does. Counters only grow.
type Stats struct {
	Held          int    // leases held now
	Waiting       int    // callers of Acquire waiting now
	Unresolved    int    // attempts and releases whose outcome is not known yet
	Renewals      uint64 // renewals acknowledged, one for each lease (one for readers of the client that share a hold)
	Losses        uint64 // leases that ended before their release, those that Close ended among them
	LateReleases  uint64 // releases whose answer did not come within ReleaseWait
	DroppedEvents uint64 // of observers that took them too slowly
	Statements    uint64 // statements sent by the store (its calls, if the store does not count); other clients of the store included
}

// Stats tells what the client does now and did so far.
func (c *Client) Stats() Stats {
	if c == nil {
		return Stats{}
	}
	c.mu.Lock()
	waiting := c.waiting
	c.mu.Unlock()
	var dropped uint64
	if c.teller != nil {
		dropped = c.teller.queue.Dropped()
	}
	return Stats{
		DroppedEvents: dropped,
		Held:          c.renewer.Len(),
		Waiting:       waiting,
		Unresolved:    c.unresolved.Len(),
		Renewals:      c.renewer.Renewed(),
		Losses:        c.renewer.Losses(),
		LateReleases:  c.renewer.Late(),
		Statements:    c.store.Statements(),
	}
}
