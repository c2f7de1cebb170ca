// Package timed is for waiting no longer than one should.
package timed

import (
	"context"
	"time"
)

// Sleep waits for d, or until ctx ends: then it returns why.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Within gives do a context that ends after d, whatever has ended before: for what
// must be closed at the end.
func Within(d time.Duration, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	return do(ctx)
}
