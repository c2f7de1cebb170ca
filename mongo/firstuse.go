package mongolock

import (
	"context"
	"sync/atomic"
)

// firstUse runs the check of a Store at its first use, once, while other callers wait for
// its result within their own contexts. A check that failed is run again by the next
// use. The zero value is not ready: see newFirstUse.
//
// It is no internal/singleflight, because the check does not outlive its caller: why no server was found the driver
// says when the context that it was given ends, and the caller must hear that.
type firstUse struct {
	passed atomic.Bool
	slot   chan struct{} // who has it checks
}

func newFirstUse() *firstUse { return &firstUse{slot: make(chan struct{}, 1)} }

// do runs the check, unless it has passed, in the caller's context: where that ends, the
// driver's error says why no server was found. The error is the check's, or the context's
// where it ended during the wait; either way nothing was changed.
func (f *firstUse) do(ctx context.Context, check func(context.Context) error) error {
	if f.passed.Load() {
		return nil
	}
	select {
	case f.slot <- struct{}{}:
		defer func() { <-f.slot }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if f.passed.Load() {
		return nil
	}
	if err := check(ctx); err != nil {
		return err
	}
	f.passed.Store(true)
	return nil
}
