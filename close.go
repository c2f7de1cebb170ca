package rowlock

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/rowlock/rowlock/internal/grant"
)

// Close ends the client and waits for the work under its locks:
//
//  1. Acquire, TryAcquire, Inspect and Observe give ErrClosed, also to callers that wait.
//  2. The contexts of the functions that [Do], [Lead] and [Every] run end, with the cause ErrClosed.
//     Close waits until these functions have returned. Their leases are held, renewed
//     and good for a guard until then, so that no other program begins the same work.
//  3. Every other lease ends, with ReasonClosed, and is released.
//  4. Close waits for releases and for everything else that is still on its way.
//
// ctx bounds all of it. Where it has a deadline the other leases are released before
// that: its last quarter, at most Options.ReleaseWait, is kept for it. When ctx ends
// first the error names the keys that were cut off and the last cause, and matches ctx's error. It names
// those too that the database refuses to release, with the cause, and does not wait
// for them: a privilege is missing, or the Store was closed before. The lease
// of a function that still runs is not released: it ends with ReasonClosed and is not
// renewed any more, and its TTL frees the key, at best after the function. A ctx that
// is over on entry waits for nothing.
//
// So the order at the end of a program is Close, then the Store's own Close: the Store
// belongs to the program that opened it. (What hangs on a session of the Store, as a lease of
// SelectForUpdate does, ends with the Store, under a function that is still running.)
//
// Close may be called by many and more than once: all wait for the first call and get
// its answer. From inside such a function it would wait for itself: with a context of
// that function it changes nothing and gives ErrSelfDeadlock. Close of a nil Client is nil.
//
// What was logged reaches the handler of Options.Logger before Close returns, unless
// the handler takes longer than ctx allows, or than Options.ReleaseWait for one record. The
// same holds for what Options.Observers are told.
func (c *Client) Close(ctx context.Context) error {
	if c == nil {
		return nil
	}
	if ctx == nil {
		return fmt.Errorf("close: %w: the context is nil", ErrInvalid)
	}
	if key, inside := c.insideDo(ctx); inside {
		return fmt.Errorf("close: %w: Close waits for the function that Do runs under %q, which called it", ErrSelfDeadlock, key)
	}
	if !c.beginClose() {
		if !waitFor(ctx, c.done) {
			return fmt.Errorf("close: %w", waitError(ctx, nil))
		}
		return c.closeErr
	}
	defer close(c.done)
	defer c.endLog(ctx)
	if c.teller != nil {
		defer c.teller.end(ctx)
	}
	defer c.store.End()

	release, stop := earlier(ctx, c.opts.ReleaseWait)
	defer stop()
	waitFor(release, c.doing.done)
	c.closeOthers()
	if waitFor(ctx, c.doing.done) {
		c.closeOthers() // those of which the functions had views
	}
	running := c.giveUp()
	c.endRenewing()
	workDone := c.store.Work.Close()
	var left []string
	idle := waitFor(ctx, workDone)
	if !idle {
		left = c.table.UnderWay()
	}
	undone, why := c.table.Unresolved.Wait(ctx)
	c.closeErr = cutOff(ctx, running, append(left, undone...), idle, why)
	return c.closeErr
}

// beginClose begins Close: nothing new begins, and the contexts of functions of Do end. false:
// it had begun.
func (c *Client) beginClose() bool {
	c.doing.mu.Lock()
	if c.doing.closed {
		c.doing.mu.Unlock()
		return false
	}
	c.doing.closed = true
	if len(c.doing.running) == 0 {
		close(c.doing.done)
	}
	running := slices.Collect(maps.Keys(c.doing.running))
	c.doing.mu.Unlock()
	c.table.Close()
	c.endOpen()
	for _, ctx := range running {
		ctx.cancel(ErrClosed)
	}
	return true
}

// earlier ends before ctx does, by at most d: what is done then is answered in time.
func earlier(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	end, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	return context.WithDeadline(ctx, end.Add(-min(d, time.Until(end)/4)))
}

// waitFor reports whether done was closed before ctx ended.
func waitFor(ctx context.Context, done <-chan struct{}) bool {
	select {
	case <-done:
	default:
		select {
		case <-done:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// closeOthers ends and releases the leases under which no function of Do runs.
func (c *Client) closeOthers() {
	running := c.doing.all()
	under := make(map[*grant.Grant]bool, len(running))
	stays := make(map[grant.User]bool, len(running))
	for _, ctx := range running {
		if ctx.lease.Err() == nil { // if not, the grant is another's, or over
			under[ctx.lease.g] = true
			stays[(*user)(ctx.lease.first())] = true
		}
	}
	for _, g := range c.table.Renewer.All() {
		if under[g] {
			g.EndOthers(func(u grant.User) bool { return stays[u] })
		} else {
			g.End(grant.Closed, nil)
		}
	}
}

// giveUp ends the leases under which a function of Do still runs, without a release,
// and names their keys.
func (c *Client) giveUp() (keys []string) {
	running := c.doing.all()
	for _, ctx := range running {
		if l := ctx.lease; l.Err() == nil && l.g.End(grant.CutOff, nil) {
			keys = append(keys, l.Key())
		}
	}
	return keys
}

// cutOff is the error of a Close whose ctx ended first, or which met a refusal. why is that of what is left, where it is known.
func cutOff(ctx context.Context, running, left []string, idle bool, why error) error {
	var parts []string
	if len(running) > 0 {
		parts = append(parts, "functions of Do still run, and their keys stay taken until the TTL ends: "+quoted(running))
	}
	if len(left) > 0 {
		parts = append(parts, "not released, free after the TTL: "+quoted(left))
	}
	if !idle && len(left) == 0 {
		parts = append(parts, "statements are under way")
	}
	switch {
	case len(parts) == 0:
		return nil
	case ctx.Err() == nil:
		return fmt.Errorf("close: %s: %w", strings.Join(parts, "; "), why)
	}
	return fmt.Errorf("close: %s: %w", strings.Join(parts, "; "), waitError(ctx, why))
}

func quoted(keys []string) string {
	slices.Sort(keys)
	keys = slices.Compact(keys)
	for i, k := range keys {
		keys[i] = fmt.Sprintf("%q", k)
	}
	return strings.Join(keys, ", ")
}

// endLog hands what was logged to the handler, for as long as ctx allows.
func (c *Client) endLog(ctx context.Context) {
	c.report.Flush()
	c.logs.Flush(ctx, c.opts.ReleaseWait)
}
