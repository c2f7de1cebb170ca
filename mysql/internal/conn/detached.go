package conn

import (
	"context"
	"time"
)

// detachedGrace is how long what a caller has given up may go on: the statement that is
// under way gets its answer.
const detachedGrace = 2 * time.Second

// Detached runs f, which uses connections that others use too, in a context of the
// Store's. The caller's bounds the wait only: its end would close the connection, and
// what is in it (a trace, a session) is no business of the driver. When the caller has
// given up f goes on for detachedGrace at most; Close waits for it.
func Detached[T any](ctx context.Context, d *DB, what string, f func(context.Context) (T, error)) (answer T, err error) {
	if err := ctx.Err(); err != nil {
		return answer, NotSent(what, err)
	}
	own, cancel := context.WithCancel(context.Background())
	stop := context.AfterFunc(ctx, func() {
		late := time.AfterFunc(detachedGrace, cancel)
		context.AfterFunc(own, func() { late.Stop() })
	})
	type result struct {
		answer T
		err    error
	}
	done := make(chan result, 1)
	d.Work(func() {
		defer cancel()
		defer stop()
		answer, err := f(own)
		done <- result{answer, err}
	})
	select {
	case r := <-done:
		return r.answer, r.err
	case <-ctx.Done():
		return answer, Classify(what, ctx.Err())
	}
}

// DetachedErr is detached for what has no answer but an error.
func DetachedErr(ctx context.Context, d *DB, what string, f func(context.Context) error) error {
	_, err := Detached(ctx, d, what, func(ctx context.Context) (struct{}, error) { return struct{}{}, f(ctx) })
	return err
}
