package call

import (
	"context"
	"time"

	"github.com/rowlock/rowlock/driver"
)

// Ask runs one statement for a caller, whose ctx bounds only its wait: do gets a context
// of the client that ends after patience. What a dead connection swallowed is done
// again, which changes nothing or names its hold, unless the caller has left or stop
// has ended. The error is do's, or ctx's own error when that ended first, or
// driver.ErrClosed. op is for Store.Called.
func Ask[T any](s *Store, ctx, stop context.Context, patience time.Duration, op string, do func(context.Context) (T, error)) (T, error) {
	type answer struct {
		t   T
		err error
	}
	answered := make(chan answer, 1)
	asking := s.Work.Go(func() {
		own := s.within(patience)
		defer own.end()
		var silence Silence
		for {
			began := s.Now()
			t, err := do(own)
			s.told(op, 1, began, err)
			wanted := ctx.Err() == nil && stop.Err() == nil
			if !driver.IsSilent(err) || !wanted || Sleep(own, silence.Pause(s.Now()-began)) != nil {
				answered <- answer{t, err}
				return
			}
		}
	})
	var none T
	if !asking {
		return none, driver.ErrClosed
	}
	select {
	case a := <-answered:
		return a.t, a.err
	case <-ctx.Done():
		return none, ctx.Err()
	}
}

// AskInspect is Inspect for a caller; see Ask.
func (s *Store) AskInspect(ctx, stop context.Context, keys []string, patience time.Duration) ([]driver.Info, error) {
	return Ask(s, ctx, stop, patience, "inspect", func(ctx context.Context) ([]driver.Info, error) {
		return s.inspect(ctx, keys)
	})
}
