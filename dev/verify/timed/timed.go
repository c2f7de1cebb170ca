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

// Persist repeats, for half a minute, what a server that just had a fault may refuse. What a round has recorded is not
// thrown away because of one answer at its end.
func Persist(ctx context.Context, f func() error) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for {
		err := f()
		if err == nil || ctx.Err() != nil {
			return err
		}
		Rest(ctx, time.Second)
	}
}
