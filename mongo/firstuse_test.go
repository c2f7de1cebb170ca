package mongolock

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestFirstUse(t *testing.T) {
	t.Parallel()
	f := newFirstUse()
	bad, checks := errors.New("bad"), 0
	check := func(err error) func(context.Context) error {
		return func(context.Context) error { checks++; return err }
	}
	if err := f.do(t.Context(), check(bad)); err != bad || f.passed.Load() {
		t.Errorf("a check that failed: %v", err)
	}
	started, end, done := make(chan struct{}), make(chan struct{}), make(chan error)
	go func() {
		done <- f.do(t.Context(), func(context.Context) error { close(started); <-end; return nil })
	}()
	<-started
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := f.do(ctx, check(nil)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("behind a check that hangs: %v", err)
	}
	close(end)
	if err := <-done; err != nil || !f.passed.Load() {
		t.Errorf("a check that passed: %v", err)
	}
	if err := f.do(t.Context(), check(bad)); err != nil || checks != 1 {
		t.Errorf("after it passed: %v, %d checks", err, checks)
	}
}
