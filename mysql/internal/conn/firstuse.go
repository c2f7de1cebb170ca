package conn

import (
	"context"
	"fmt"
	"time"

	"github.com/rowlock/rowlock/internal/singleflight"
)

// goesOn is how long it may take, at least, to open a connection and to ask some questions on
// it, when nobody waits for it any more: these are some trips, and each may take long.
const goesOn = 5 * time.Second

// FirstUse is the check that one caller makes for all who need it. It goes on while anybody waits, and for goesOn in
// any case: if it ended with the caller that began it, callers that have less time than it takes would begin it anew
// one after the other, and none would see its end.
type FirstUse struct {
	d    *DB
	runs singleflight.Group[struct{}]
}

// NewFirstUse is a FirstUse whose checks end with the Store: Close ends and waits for them.
func NewFirstUse(d *DB) *FirstUse {
	f := &FirstUse{d: d}
	f.runs.Life, f.runs.Go = d.life, d.begin
	f.runs.Alone = func(age time.Duration) time.Duration { return goesOn - age }
	return f
}

// Do begins the check, or joins the one that is under way. An error may be of something that changed before the call,
// so whoever has joined makes the check once more after one.
func (f *FirstUse) Do(ctx context.Context, what string, check func(context.Context) error) error {
	if err := ctx.Err(); err != nil {
		return NotSent(what, err)
	}
	joined, err := f.wait(ctx, what, check)
	if joined && err != nil && ctx.Err() == nil {
		before := err
		if _, err = f.wait(ctx, what, check); err != nil && ctx.Err() != nil { // whoever began this one did so after this call
			err = fmt.Errorf("%w (before: %w)", err, before)
		}
	}
	return err
}

// wait waits for one check; joined: another caller had begun it.
func (f *FirstUse) wait(ctx context.Context, what string, check func(context.Context) error) (joined bool, err error) {
	r := f.runs.Do(ctx, func(ctx context.Context) (struct{}, error) { return struct{}{}, check(ctx) })
	if r.Left {
		return r.Joined, NotSent(what, f.d.overdue(ctx))
	}
	return r.Joined, r.Err
}
