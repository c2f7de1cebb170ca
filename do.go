package rowlock

import (
	"context"
	"errors"
)

// Do runs fn while it holds key. It waits for the key for as long as ctx allows
// (with NoWait it tries once and returns an error that matches ErrHeld), calls fn
// with a context that ends with the hold, returns only after fn did, and releases
// the key then: on a panic and on runtime.Goexit too.
//
// The error is fn's own. If the hold was lost before fn returned, it is joined
// with the *LostError, even if fn returned nil: what fn did may not have been
// alone. A failed release is logged by the Client, not returned: the key is free
// again after its TTL. Without a lease fn is not called and the error is Acquire's.
//
// The run of a job that only one of many programs should do:
//
//	err := rowlock.Do(ctx, locks, "report", job, rowlock.NoWait(), rowlock.MinHold(10*time.Minute))
//	if errors.Is(err, rowlock.ErrHeld) { return nil } // another has it, or had it within the last 10 minutes
func Do(ctx context.Context, l Locker, key string, fn func(context.Context, *Lease) error, opts ...Option) (err error) {
	lease, err := l.Acquire(ctx, key, opts...)
	if err != nil {
		return err
	}
	defer func() {
		lost := lease.Err() // before the release, which sets it
		if e := lease.Release(ctx); lost == nil {
			lost = e
		}
		if errors.Is(lost, ErrLost) && !errors.Is(err, lost) {
			err = errors.Join(err, lost)
		}
	}()
	return fn(lease.Context(ctx), lease)
}
