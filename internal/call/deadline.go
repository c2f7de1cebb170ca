package call

import (
	"context"
	"sync"
	"time"
)

// deadline is the context of one statement: it ends with the client, or after a
// while. It is context.WithTimeout without the price of a timer for a store that
// never asks for Done.
type deadline struct {
	context.Context // the client's life
	at              time.Time

	mu    sync.Mutex
	done  context.Context
	stop  context.CancelFunc
	ended bool
}

// within is a context for a statement whose answer is worth waiting for d. Its
// user calls end.
func (s *Store) within(d time.Duration) *deadline {
	return &deadline{Context: s.life, at: time.Now().Add(d)}
}

func (d *deadline) Deadline() (time.Time, bool) { return d.at, true }

func (d *deadline) Done() <-chan struct{} { return d.real().Done() }

func (d *deadline) Err() error {
	d.mu.Lock()
	real := d.done
	d.mu.Unlock()
	switch {
	case real != nil:
		return real.Err()
	case d.Context.Err() != nil:
		return d.Context.Err()
	case !time.Now().Before(d.at):
		return context.DeadlineExceeded
	}
	return nil
}

// Value gives children a way to the real context, so that they need no goroutine.
func (d *deadline) Value(key any) any {
	d.mu.Lock()
	real := d.done
	d.mu.Unlock()
	if real != nil {
		return real.Value(key)
	}
	return d.Context.Value(key)
}

func (d *deadline) real() context.Context {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.done == nil {
		d.done, d.stop = context.WithDeadline(d.Context, d.at)
		if d.ended {
			d.stop()
		}
	}
	return d.done
}

// end frees the timer.
func (d *deadline) end() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ended = true
	if d.stop != nil {
		d.stop()
	}
}
