package mongolock

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/rowlock/rowlock/driver"
)

// gate lets the first use of a Store check the server, once, while others wait
// for its result with their own contexts. A check that failed is made again by
// the next use.
type gate struct {
	opened *atomic.Bool
	turn   chan struct{}
}

func newGate() gate {
	return gate{opened: new(atomic.Bool), turn: make(chan struct{}, 1)}
}

func (g gate) pass(ctx context.Context, check func(context.Context) error) error {
	if g.opened.Load() {
		return nil
	}
	select {
	case g.turn <- struct{}{}:
		defer func() { <-g.turn }()
	case <-ctx.Done():
		return &driver.Error{NotApplied: true, Err: ctx.Err()}
	}
	if g.opened.Load() {
		return nil
	}
	if err := check(ctx); err != nil {
		// The check changes nothing, whatever became of it.
		var e *driver.Error
		lasting := errors.As(err, &e) && e.Lasting
		return &driver.Error{Lasting: lasting, NotApplied: true, Err: err}
	}
	g.opened.Store(true)
	return nil
}
