package conn

import (
	"context"
	"fmt"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/singleflight"
)

// detachedGrace is how long what a caller has given up may go on, or what is under way when the Store is closed: the
// statement that is under way gets its answer.
const detachedGrace = 2 * time.Second

// Detached runs f, which uses connections that others use too, in a context of the
// Store's. The caller's bounds the wait only: its end would close the connection, and
// what is in it (a trace, a session) is no business of the driver. When the caller has
// given up, or the Store is closed, f goes on for detachedGrace at most; Close waits for it.
func Detached[T any](ctx context.Context, d *DB, what string, f func(context.Context) (T, error)) (answer T, err error) {
	if err := ctx.Err(); err != nil {
		return answer, NotSent(what, err)
	}
	run := singleflight.Group[T]{
		Life: context.Background(), Go: d.begin,
		Alone: func(time.Duration) time.Duration { return detachedGrace },
	}
	r := run.Do(ctx, func(own context.Context) (T, error) {
		own, cancel := context.WithCancel(own)
		defer cancel()
		closed := context.AfterFunc(d.life, func() { // a caller may have no end
			late := time.AfterFunc(detachedGrace, cancel)
			context.AfterFunc(own, func() { late.Stop() })
		})
		defer closed()
		answer, err := f(own)
		if err != nil && own.Err() != nil && d.life.Err() != nil {
			err = &driver.Error{Lasting: true, NotApplied: driver.IsNotApplied(err), Err: fmt.Errorf("mysql: %s: %w: the store was closed meanwhile: %w", what, driver.ErrClosed, err)}
		}
		return answer, err
	})
	if r.Left {
		return answer, Classify(what, d.overdue(ctx))
	}
	return r.Value, r.Err
}

// DetachedErr is detached for what has no answer but an error.
func DetachedErr(ctx context.Context, d *DB, what string, f func(context.Context) error) error {
	_, err := Detached(ctx, d, what, func(ctx context.Context) (struct{}, error) { return struct{}{}, f(ctx) })
	return err
}
