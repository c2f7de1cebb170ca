package call

import (
	"context"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/repeat"
	"github.com/rowlock/rowlock/internal/singleflight"
)

// Ask runs one statement for a caller, whose ctx bounds only its wait: do gets a context
// of the client that ends after patience. What a dead connection swallowed is done
// again, which changes nothing or names its hold, unless the caller has left or stop
// has ended. The error is do's, or ctx's own error when that ended first, or
// driver.ErrClosed. op is for Store.Called.
func Ask[T any](s *Store, ctx, stop context.Context, patience time.Duration, op string, do func(context.Context) (T, error)) (T, error) {
	run := singleflight.Group[T]{Life: s.life, Go: s.Work.Go} // it ends by its patience
	r := run.Do(ctx, func(context.Context) (T, error) {
		own := s.within(patience)
		defer own.end()
		var silence repeat.Silence
		for {
			began := s.Now()
			t, err := do(own)
			s.told(op, 1, began, err)
			wanted := ctx.Err() == nil && stop.Err() == nil
			if !driver.IsSilent(err) || !wanted || repeat.Sleep(own, silence.Pause(s.Now()-began)) != nil {
				return t, err
			}
		}
	})
	return r.Value, r.Err
}

// AskInspect is Inspect for a caller; see Ask.
func (s *Store) AskInspect(ctx, stop context.Context, keys []string, patience time.Duration) ([]driver.Info, error) {
	return Ask(s, ctx, stop, patience, "inspect", func(ctx context.Context) ([]driver.Info, error) {
		return s.inspect(ctx, keys)
	})
}
