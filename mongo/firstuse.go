package mongolock

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/rowlock/rowlock/driver"
)

// firstUse lets the first use of a Store check the server, once, while others wait
// for its result with their own contexts. A check that failed is made again by
// the next use.
type firstUse struct {
	passed   *atomic.Bool
	checking chan struct{}
}

func newFirstUse() firstUse {
	return firstUse{passed: new(atomic.Bool), checking: make(chan struct{}, 1)}
}

func (g firstUse) check(ctx context.Context, check func(context.Context) error) error {
	if g.passed.Load() {
		return nil
	}
	select {
	case g.checking <- struct{}{}:
		defer func() { <-g.checking }()
	case <-ctx.Done():
		return &driver.Error{NotApplied: true, Err: ctx.Err()}
	}
	if g.passed.Load() {
		return nil
	}
	if err := check(ctx); err != nil {
		// The check changes nothing, whatever became of it.
		var e *driver.Error
		lasting := errors.As(err, &e) && e.Lasting
		return &driver.Error{Lasting: lasting, NotApplied: true, Err: err}
	}
	g.passed.Store(true)
	return nil
}
