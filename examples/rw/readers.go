package main

import (
	"context"
	"errors"
	"sync"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/examples/internal/fleet"
	"github.com/rowlock/rowlock/examples/internal/timed"
)

// playReaders is a program whose goroutines read the list over and over.
func playReaders(ctx context.Context, parent *fleet.Parent) error {
	return play(ctx, parent, (*shop).readers)
}

func (s *shop) readers(ctx, wait context.Context) (sum result, err error) {
	var opts []rowlock.Option
	if s.Way == shared {
		opts = append(opts, rowlock.Shared())
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	for range s.Plan.Readers {
		wg.Go(func() {
			for wait.Err() == nil {
				var torn bool
				waited, e := s.locked(ctx, wait, func(ctx context.Context) (err error) {
					torn, err = s.read(ctx)
					return err
				}, opts...)
				mu.Lock()
				switch {
				case e == nil:
					sum.Lists++
					sum.Waits = append(sum.Waits, waited.Seconds())
					if torn {
						sum.Torn++
					}
				case wait.Err() == nil:
					err = errors.Join(err, e)
				}
				mu.Unlock()
				if e != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	return sum, err
}

// read reads the whole list, page by page, and reports whether it has prices of two lists.
func (s *shop) read(ctx context.Context) (torn bool, err error) {
	first, last := 0, 0 // editions
	for page := range s.Plan.Pages {
		var low, high int
		err := s.db.QueryRowContext(ctx, "SELECT MIN(edition), MAX(edition) FROM "+tableOf(s.Space)+" WHERE article BETWEEN ? AND ?",
			page*s.Plan.Page, (page+1)*s.Plan.Page-1).Scan(&low, &high)
		if err != nil {
			return false, err
		}
		if page == 0 {
			first, last = low, high
		}
		first, last = min(first, low), max(last, high)
		if err := timed.Sleep(ctx, s.Plan.Pause); err != nil {
			return false, err
		}
	}
	return first != last, nil
}
