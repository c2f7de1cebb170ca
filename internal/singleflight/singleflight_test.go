package singleflight

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rowlock/rowlock/driver"
)

type callersKey struct{}

// newGroup has runs that go on alone until they are three seconds old.
func newGroup(t *testing.T) *Group[int] {
	return &Group[int]{
		Life:  t.Context(),
		Go:    func(f func()) bool { go f(); return true },
		Alone: func(age time.Duration) time.Duration { return 3*time.Second - age },
	}
}

// work counts its runs, and answers their number after d, or the error of its context.
type work struct {
	runs int
	ends []time.Duration // since start
	from time.Time
}

func (w *work) takes(d time.Duration) func(context.Context) (int, error) {
	return func(ctx context.Context) (int, error) {
		w.runs++
		n := w.runs
		defer func() { w.ends = append(w.ends, time.Since(w.from)) }()
		select {
		case <-time.After(d):
			return n, nil
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

// TestOneRunForAll: who comes while a run is under way gets its answer, also if it is an error; whoever comes after it
// begins anew.
func TestOneRunForAll(t *testing.T) {
	bad := errors.New("bad")
	for _, want := range []error{nil, bad} {
		synctest.Test(t, func(t *testing.T) {
			g, runs := newGroup(t), 0
			f := func(context.Context) (int, error) {
				runs++
				time.Sleep(time.Second)
				return runs, want
			}
			got := make(chan Result[int], 3)
			go func() { got <- g.Do(t.Context(), f) }()
			synctest.Wait()
			for range 2 {
				go func() { got <- g.Do(t.Context(), f) }()
			}
			joined := 0
			for range 3 {
				r := <-got
				if r.Value != 1 || r.Err != want || r.Left {
					t.Errorf("%+v, want 1 and %v", r, want)
				}
				if r.Joined {
					joined++
				}
			}
			if joined != 2 {
				t.Errorf("%d of 3 callers have joined, want 2", joined)
			}
			if r := g.Do(t.Context(), f); r.Value != 2 || r.Joined {
				t.Errorf("after the run: %+v, want a run of its own", r)
			}
		})
	}
}

// TestRunOutlivesItsCaller: neither the end nor a value of a caller's context reaches the run, which has an answer for
// those that came later.
func TestRunOutlivesItsCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, w := newGroup(t), &work{from: time.Now()}
		ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), callersKey{}, 1), time.Second)
		defer cancel()
		r := g.Do(ctx, func(ctx context.Context) (int, error) {
			if ctx.Value(callersKey{}) != nil {
				t.Error("a value of the caller's context reached the run")
			}
			return w.takes(5 * time.Second)(ctx)
		})
		if !r.Left || r.Err != context.DeadlineExceeded || time.Since(w.from) != time.Second {
			t.Errorf("after %v: %+v, want the end of the context after 1s", time.Since(w.from), r)
		}
		if r = g.Do(t.Context(), w.takes(0)); r.Value != 1 || !r.Joined || time.Since(w.from) != 5*time.Second {
			t.Errorf("after %v: %+v, want the answer of the first run after 5s", time.Since(w.from), r)
		}
	})
}

// TestAlone: a run without callers ends when it was alone for long enough, and not before; whoever comes then begins anew.
func TestAlone(t *testing.T) {
	for _, c := range []struct {
		name  string
		stays []time.Duration // how long each caller stays; each comes half a second after the one before has left
		takes time.Duration
		ends  time.Duration // when the first run is over
		runs  int
	}{
		{"the only caller leaves early", []time.Duration{time.Second}, time.Minute, 3 * time.Second, 1},
		{"the only caller leaves late", []time.Duration{4 * time.Second}, time.Minute, 4 * time.Second, 1},
		{"it is done by itself before", []time.Duration{time.Second}, 2 * time.Second, 2 * time.Second, 1},
		{"another stays longer", []time.Duration{time.Second, 3 * time.Second}, time.Minute, 4500 * time.Millisecond, 1},
		{"all leave early", []time.Duration{time.Second, time.Second}, time.Minute, 3 * time.Second, 1},
		{"another comes after its end", []time.Duration{4 * time.Second, time.Second}, time.Minute, 4 * time.Second, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, w := newGroup(t), &work{from: time.Now()}
				for i, stays := range c.stays {
					if i > 0 {
						time.Sleep(500 * time.Millisecond)
					}
					ctx, cancel := context.WithTimeout(t.Context(), stays)
					if r := g.Do(ctx, w.takes(c.takes)); !r.Left {
						t.Errorf("caller %d: %+v, want that it left", i, r)
					}
					cancel()
				}
				time.Sleep(2 * time.Minute)
				synctest.Wait()
				if w.runs != c.runs || w.ends[0] != c.ends {
					t.Errorf("%d runs, over after %v; want %d, the first after %v", w.runs, w.ends, c.runs, c.ends)
				}
			})
		})
	}
}

// TestRunThatEndsByItself: without Alone nobody ends a run but Life.
func TestRunThatEndsByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, w := newGroup(t), &work{from: time.Now()}
		g.Alone = nil
		life, end := context.WithCancel(t.Context())
		g.Life = life
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		g.Do(ctx, w.takes(time.Hour))
		time.AfterFunc(29*time.Minute, end)
		if r := g.Do(t.Context(), w.takes(0)); !r.Joined || r.Err != context.Canceled || r.Left || w.ends[0] != 29*time.Minute+time.Second {
			t.Errorf("after %v: %+v, want the end of Life", w.ends, r)
		}
	})
}

// TestRefused: where Go begins nothing the caller is told so, and nothing hangs.
func TestRefused(t *testing.T) {
	g := newGroup(t)
	g.Go = func(func()) bool { return false }
	for range 2 {
		if r := g.Do(t.Context(), func(context.Context) (int, error) { panic("called") }); r.Err != driver.ErrClosed || r.Left {
			t.Errorf("%+v, want ErrClosed", r)
		}
	}
}
