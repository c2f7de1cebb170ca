package logs

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rowlock/rowlock/driver"
)

// TestABlockingHandler: a log call returns at once; what does not fit is dropped, steps
// first, and counted.
func TestABlockingHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &lines{block: make(chan struct{})}
		log, q := New(slog.New(h))
		start := time.Now()
		for range maxRecords + 5 {
			log.Warn("w")
		}
		synctest.Wait() // one is in the handler's hands
		if time.Since(start) != 0 || len(h.got()) != 0 {
			t.Fatalf("after %v: %q", time.Since(start), h.got())
		}
		close(h.block)
		q.Flush(t.Context(), time.Second)
		got := h.got()
		dropped := got[len(got)-1]
		if len(got) < maxRecords+1 || len(got) > maxRecords+3 || dropped[:len("WARN log records were dropped")] != "WARN log records were dropped" {
			t.Errorf("%d records, the last is %q", len(got), dropped)
		}
	})
}

// TestStepsLeaveRoom: steps take a part of the room only. A handler that wants none is not
// told of those that were dropped.
func TestStepsLeaveRoom(t *testing.T) {
	for _, wanted := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			h := &lines{block: make(chan struct{}), steps: wanted}
			log, q := New(slog.New(h))
			log.Warn("first")
			synctest.Wait() // the handler blocks on it
			for range maxRecords {
				q.Step(t.Context(), "step", &driver.Hold{Key: "k"}, 1)
			}
			log.Warn("w")
			if n := q.droppedSteps.Load(); n != maxRecords-maxSteps {
				t.Errorf("%d steps were dropped", n)
			}
			close(h.block)
			q.Flush(t.Context(), time.Second)
			var want []string
			if wanted {
				step := fmt.Sprint("DEBUG step key=k token=1 hold=", driver.HoldID{})
				want = slices.Repeat([]string{step}, maxSteps)
				want = append(want, "WARN w", fmt.Sprint("WARN log records were dropped: the handler took them too slowly n=", maxRecords-maxSteps))
			} else {
				want = []string{"WARN w"}
			}
			if got := h.got(); !slices.Equal(got, append([]string{"WARN first"}, want...)) {
				t.Errorf("steps wanted %v: %d lines, the last is %q; want %d, the last %q", wanted, len(got), got[len(got)-1], len(want)+1, want[len(want)-1])
			}
		})
	}
}

// TestTheHandlerIsAskedLate: no log call asks the user's handler anything, whose Enabled may
// block or use the client; it decides with the context of the call.
func TestTheHandlerIsAskedLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &asked{lines: lines{steps: true}, open: make(chan struct{})}
		log, q := New(slog.New(h), "client", "a")
		for _, wants := range []bool{true, false} {
			ctx := context.WithValue(t.Context(), wanted{}, wants)
			q.Step(ctx, "step", &driver.Hold{Key: fmt.Sprint(wants), Mode: driver.Shared}, 7)
			log.InfoContext(ctx, fmt.Sprint("info ", wants))
		}
		synctest.Wait()
		if got := h.got(); len(got) != 0 {
			t.Errorf("Enabled blocks, and the handler got %q", got)
		}
		close(h.open)
		q.Flush(t.Context(), time.Second)
		want := []string{fmt.Sprint("DEBUG step key=true mode=shared token=7 hold=", driver.HoldID{}), "INFO info true"}
		if got := h.got(); !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	})
}

// wanted is what asked looks for in a context.
type wanted struct{}

// asked is a handler whose Enabled blocks, and decides by the context.
type asked struct {
	lines
	open chan struct{}
}

func (h *asked) WithAttrs([]slog.Attr) slog.Handler { return h }

func (h *asked) Enabled(ctx context.Context, _ slog.Level) bool {
	<-h.open
	return ctx.Value(wanted{}) == true
}

// TestFlush: it ends when all is written, with its context, or when the handler takes longer
// than patience for one record.
func TestFlush(t *testing.T) {
	for _, c := range []struct {
		name  string
		slow  time.Duration // the handler's time for a record; 0: for ever
		ctx   time.Duration
		after time.Duration
	}{
		{"all is written", 300 * time.Millisecond, time.Hour, 900 * time.Millisecond},
		{"the context ends", 300 * time.Millisecond, 500 * time.Millisecond, 500 * time.Millisecond},
		{"the handler blocks", 0, time.Hour, time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := &lines{block: make(chan struct{})}
				log, q := New(slog.New(h))
				for range 3 {
					log.Info("i")
				}
				synctest.Wait() // the handler has the first one
				if c.slow > 0 {
					go func() {
						for range 3 {
							time.Sleep(c.slow)
							h.block <- struct{}{}
						}
					}()
				}
				start := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), c.ctx)
				defer cancel()
				q.Flush(ctx, time.Second)
				if took := time.Since(start); took != c.after {
					t.Errorf("returned after %v, want %v", took, c.after)
				}
				if c.slow == 0 {
					close(h.block)
				}
				q.Flush(t.Context(), time.Hour)
			})
		})
	}
}

// TestNoLogger: nothing is logged, and nothing waits.
func TestNoLogger(t *testing.T) {
	log, q := New(nil)
	log.Error("e")
	q.Flush(t.Context(), time.Hour)
}
