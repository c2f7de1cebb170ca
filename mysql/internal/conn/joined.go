package conn

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// goesOn is how long it may take, at least, to open a connection and to ask some questions on
// it, when nobody waits for it any more: these are some trips, and each may take long.
const goesOn = 5 * time.Second

// Joined is work that one does for all who need it. Who comes while it is under way waits for
// the same answer, within its own context. An error may be of something that changed before the call,
// so whoever has joined begins the work once more after one. It goes on while anybody waits, and for goesOn
// in any case: were it to end with the caller that began it, callers that have less time than it
// takes would begin it anew one after the other, and none would see its end. The zero value is
// ready.
type Joined struct {
	mu  sync.Mutex
	now *joint // nil: nothing is under way that can be joined
}

// joint is one run of the work. callers and lasting are guarded by Joined.mu.
type joint struct {
	callers int
	lasting bool // it is younger than goesOn
	cancel  context.CancelFunc
	done    chan struct{} // closed when err is there
	err     error
}

// Do begins f, or joins the one that is under way. f gets a context of the Store's; Close ends
// it and waits for f.
func (j *Joined) Do(ctx context.Context, d *DB, what string, f func(context.Context) error) error {
	if err := ctx.Err(); err != nil {
		return NotSent(what, err)
	}
	joined, err := j.wait(ctx, d, what, f)
	if joined && err != nil && ctx.Err() == nil {
		before := err
		if _, err = j.wait(ctx, d, what, f); err != nil && ctx.Err() != nil { // whoever began this one did so after this call
			err = fmt.Errorf("%w (before: %w)", err, before)
		}
	}
	return err
}

// wait waits for one run; joined: another caller had begun it.
func (j *Joined) wait(ctx context.Context, d *DB, what string, f func(context.Context) error) (joined bool, err error) {
	w, joined := j.join(d, f)
	defer j.leave(w)
	select {
	case <-w.done:
		return joined, w.err
	case <-ctx.Done():
		return joined, NotSent(what, d.overdue(ctx))
	}
}

func (j *Joined) join(d *DB, f func(context.Context) error) (w *joint, joined bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.now != nil {
		j.now.callers++
		return j.now, true
	}
	ctx, cancel := context.WithCancel(d.life)
	w = &joint{callers: 1, lasting: true, cancel: cancel, done: make(chan struct{})}
	least := time.AfterFunc(goesOn, func() {
		j.mu.Lock()
		defer j.mu.Unlock()
		w.lasting = false
		j.forsaken(w)
	})
	j.now = w
	d.Work(func() {
		defer cancel()
		defer least.Stop()
		w.err = f(ctx)
		j.mu.Lock()
		defer j.mu.Unlock()
		if j.now == w {
			j.now = nil
		}
		close(w.done)
	})
	return w, false
}

func (j *Joined) leave(w *joint) {
	j.mu.Lock()
	defer j.mu.Unlock()
	w.callers--
	j.forsaken(w)
}

// forsaken ends a run that nobody waits for. Called under mu.
func (j *Joined) forsaken(w *joint) {
	if w.callers > 0 || w.lasting {
		return
	}
	if j.now == w {
		j.now = nil // who comes now begins anew
	}
	w.cancel()
}
