package main

import (
	"context"
	"errors"
	"fmt"
	"go/scanner"
	"go/types"
	"runtime"
	"sync"
	"time"
)

// compile looks whether each bug applies and compiles, with the tests of the packages
// that it is in, and gives the errors by name. It does not call the compiler for each: that
// takes ten minutes for two hundred bugs. What the compiler would refuse is in the types.
func (t *tree) compile(ctx context.Context, all []*mutation) (map[string]error, error) {
	begin := time.Now()
	s, err := t.list(ctx)
	if err != nil {
		return nil, err
	}
	errs := make(map[string]error)
	bugs := make(map[string]changes)
	for _, m := range all {
		if bugs[m.name], err = t.changed(ctx, m); err != nil {
			errs[m.name] = err
		}
	}
	var mu sync.Mutex
	next := make(chan *mutation)
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			c := newChecker(s)
			for m := range next {
				if err := c.check(bugs[m.name]); err != nil {
					mu.Lock()
					errs[m.name] = fmt.Errorf("it does not compile: %w", brief(err))
					mu.Unlock()
				}
			}
		})
	}
	for _, m := range all {
		if bugs[m.name] != nil {
			next <- m
		}
	}
	close(next)
	workers.Wait()
	fmt.Printf("%d mutations applied and compiled (%.0f s)\n", len(all)-len(errs), time.Since(begin).Seconds())
	return errs, nil
}

// brief is an error without the place, which is in the copy.
func brief(err error) error {
	if wrong := (types.Error{}); errors.As(err, &wrong) {
		return errors.New(wrong.Msg)
	}
	if wrong := (scanner.ErrorList{}); errors.As(err, &wrong) && len(wrong) > 0 {
		return errors.New(wrong[0].Msg)
	}
	return err
}
