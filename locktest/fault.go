package locktest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/clock"
)

// Op names a method of driver.Store.
type Op string

// The methods that a hook can be set for.
const (
	OpAcquire Op = "acquire"
	OpRenew   Op = "renew"
	OpRelease Op = "release"
	OpInspect Op = "inspect"
	OpLook    Op = "look"
)

// Call is one call of a Store on its way. A hook may change what is sent.
type Call struct {
	Op       Op
	Requests []driver.Request // of an acquire
	Holds    []driver.Hold    // of a renew or release
	Keys     []string         // of an inspect
	Infos    []driver.Info    // the answer to an inspect, after send
	Entries  []driver.Entry   // of a look
	Views    []driver.View    // the answer to a look, after send
}

// Hook is between the engine and the Store for one call. It calls send, at
// most once, to let the call through, and returns what the engine gets to see.
type Hook func(ctx context.Context, c *Call, send Send) ([]driver.Result, error)

// Send makes the call and gives the Store's answer.
type Send func(context.Context) ([]driver.Result, error)

// ErrFault is what the ready-made hooks fail with.
var ErrFault = errors.New("locktest: injected fault")

// Fail does not send and says that the outcome is not known.
func Fail(context.Context, *Call, Send) ([]driver.Result, error) { return nil, ErrFault }

// LoseReply applies the call and says that the outcome is not known.
func LoseReply(ctx context.Context, _ *Call, send Send) ([]driver.Result, error) {
	_, _ = send(ctx)
	return nil, ErrFault
}

// loseGrant is a hook that loses the first reply which grants. A lost refusal is of
// no use with a long TTL: its undo finds nothing, and a Store may not be able to say
// that this is final before the TTL has passed.
func loseGrant() Hook {
	var once sync.Once
	return func(ctx context.Context, _ *Call, send Send) ([]driver.Result, error) {
		results, err := send(ctx)
		if err == nil && len(results) > 0 && results[0].Status == driver.Granted {
			once.Do(func() { results, err = nil, ErrFault })
		}
		return results, err
	}
}

// Hang does not send and returns when the context ends.
func Hang(ctx context.Context, _ *Call, _ Send) ([]driver.Result, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// HangAfter applies the call and returns, without the answer, when the context ends.
func HangAfter(ctx context.Context, _ *Call, send Send) ([]driver.Result, error) {
	_, _ = send(ctx)
	<-ctx.Done()
	return nil, ctx.Err()
}

// Once is a hook that does h for the first call and lets the others through.
func Once(h Hook) Hook {
	var once sync.Once
	return func(ctx context.Context, c *Call, send Send) (results []driver.Result, err error) {
		first := false
		once.Do(func() { first = true })
		if first {
			return h(ctx, c, send)
		}
		return send(ctx)
	}
}

// Fault is a Store with hooks. It has Look, Reap, List, ForceRelease, Statements and Now; what the
// Store behind it has not answers with an error that matches rowlock.ErrNotSupported. It has
// no stream, and its queue of a server has never a place: a Client on it probes, or looks.
type Fault struct {
	store driver.Store

	mu    sync.Mutex
	hooks map[Op]Hook
	calls map[Op]uint64
}

var (
	_ driver.Store   = (*Fault)(nil)
	_ driver.Reaper  = (*Fault)(nil)
	_ driver.Lister  = (*Fault)(nil)
	_ driver.Forcer  = (*Fault)(nil)
	_ driver.Counter = (*Fault)(nil)
	_ driver.Clock   = (*Fault)(nil)
	_ driver.Liner   = (*Fault)(nil)
	_ driver.Queuer  = (*Fault)(nil)
)

// NewFault wraps s, without any hook yet. It does not close s.
func NewFault(s driver.Store) *Fault {
	return &Fault{store: s, hooks: make(map[Op]Hook), calls: make(map[Op]uint64)}
}

// Unwrap is the Store behind it, so that a lease of a Client on the Fault can be
// guarded by that Store.
func (f *Fault) Unwrap() driver.Store { return f.store }

// On sets the hook for the calls of op from now on; nil lets them through.
func (f *Fault) On(op Op, h Hook) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hooks[op] = h
}

// Clear removes all hooks. A call that is under way keeps its own.
func (f *Fault) Clear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.hooks)
}

// Calls counts the calls of op so far, those that were not sent too.
func (f *Fault) Calls(op Op) uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[op]
}

func (f *Fault) do(ctx context.Context, c *Call, send Send) ([]driver.Result, error) {
	f.mu.Lock()
	f.calls[c.Op]++
	hook := f.hooks[c.Op]
	f.mu.Unlock()
	if hook == nil {
		return send(ctx)
	}
	return hook(ctx, c, send)
}

// Acquire implements driver.Store.
func (f *Fault) Acquire(ctx context.Context, reqs []driver.Request) ([]driver.Result, error) {
	c := &Call{Op: OpAcquire, Requests: slices.Clone(reqs)}
	return f.do(ctx, c, func(ctx context.Context) ([]driver.Result, error) { return f.store.Acquire(ctx, c.Requests) })
}

// Renew implements driver.Store.
func (f *Fault) Renew(ctx context.Context, holds []driver.Hold) ([]driver.Result, error) {
	c := &Call{Op: OpRenew, Holds: slices.Clone(holds)}
	return f.do(ctx, c, func(ctx context.Context) ([]driver.Result, error) { return f.store.Renew(ctx, c.Holds) })
}

// Release implements driver.Store.
func (f *Fault) Release(ctx context.Context, holds []driver.Hold) ([]driver.Result, error) {
	c := &Call{Op: OpRelease, Holds: slices.Clone(holds)}
	return f.do(ctx, c, func(ctx context.Context) ([]driver.Result, error) { return f.store.Release(ctx, c.Holds) })
}

// Inspect implements driver.Store.
func (f *Fault) Inspect(ctx context.Context, keys []string) ([]driver.Info, error) {
	c := &Call{Op: OpInspect, Keys: slices.Clone(keys)}
	_, err := f.do(ctx, c, func(ctx context.Context) (_ []driver.Result, err error) {
		c.Infos, err = f.store.Inspect(ctx, c.Keys)
		return nil, err
	})
	if err != nil {
		return nil, err
	}
	return c.Infos, nil
}

// Look implements driver.Liner.
func (f *Fault) Look(ctx context.Context, entries []driver.Entry) ([]driver.View, error) {
	l, ok := f.store.(driver.Liner)
	if !ok {
		return nil, fmt.Errorf("look: %w", driver.ErrNotSupported)
	}
	c := &Call{Op: OpLook, Entries: slices.Clone(entries)}
	_, err := f.do(ctx, c, func(ctx context.Context) (_ []driver.Result, err error) {
		c.Views, err = l.Look(ctx, c.Entries)
		return nil, err
	})
	if err != nil {
		return nil, err
	}
	return c.Views, nil
}

// AcquireWait implements driver.Queuer.
func (f *Fault) AcquireWait(context.Context, driver.Request, func()) (driver.Result, error) {
	return driver.Result{}, &driver.Error{NotApplied: true, Err: driver.ErrNoPlace}
}

// Limits implements driver.Store.
func (f *Fault) Limits() driver.Limits { return f.store.Limits() }

// Statements implements driver.Counter: the Store's number, or that of the calls.
func (f *Fault) Statements() uint64 {
	if c, ok := f.store.(driver.Counter); ok {
		return c.Statements()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	var n uint64
	for _, calls := range f.calls {
		n += calls
	}
	return n
}

// Now implements driver.Clock: the Store's clock, or the machine's.
func (f *Fault) Now() time.Duration {
	if c, ok := f.store.(driver.Clock); ok {
		return c.Now()
	}
	return clock.Now()
}

// Reap implements driver.Reaper.
func (f *Fault) Reap(ctx context.Context, olderThan time.Duration) (int, error) {
	if r, ok := f.store.(driver.Reaper); ok {
		return r.Reap(ctx, olderThan)
	}
	return 0, fmt.Errorf("reap: %w", driver.ErrNotSupported)
}

// List implements driver.Lister.
func (f *Fault) List(ctx context.Context, prefix, after string, limit int) ([]driver.Info, error) {
	if l, ok := f.store.(driver.Lister); ok {
		return l.List(ctx, prefix, after, limit)
	}
	return nil, fmt.Errorf("list: %w", driver.ErrNotSupported)
}

// ForceRelease implements driver.Forcer.
func (f *Fault) ForceRelease(ctx context.Context, key string) (driver.Info, error) {
	if s, ok := f.store.(driver.Forcer); ok {
		return s.ForceRelease(ctx, key)
	}
	return driver.Info{Key: key}, fmt.Errorf("force release: %w", driver.ErrNotSupported)
}
