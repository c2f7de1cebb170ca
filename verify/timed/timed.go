// Package timed waits.
package timed

import (
	"context"
	"time"
)

// Rest waits, for no longer than the context lasts.
func Rest(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
