package logs

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"
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

// TestStepsLeaveRoom: steps take a part of the room only.
func TestStepsLeaveRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &lines{block: make(chan struct{})}
		q := new(Queue)
		to := handler{q, h}
		_ = to.Handle(t.Context(), slog.NewRecord(time.Now(), slog.LevelWarn, "first", 0))
		synctest.Wait() // the handler blocks on it
		for range maxRecords {
			_ = to.Handle(t.Context(), slog.NewRecord(time.Now(), slog.LevelDebug, "step", 0))
		}
		if len(q.records) != maxSteps || q.dropped != maxRecords-maxSteps {
			t.Errorf("%d steps wait, %d were dropped", len(q.records), q.dropped)
		}
		_ = to.Handle(t.Context(), slog.NewRecord(time.Now(), slog.LevelWarn, "w", 0))
		close(h.block)
		q.Flush(t.Context(), time.Second)
		want := []string{"WARN first", "WARN w", fmt.Sprint("WARN log records were dropped: the handler took them too slowly n=", maxRecords-maxSteps)}
		if got := h.got(); !slices.Equal(got, want) { // this handler takes no steps
			t.Errorf("%q, want %q", got, want)
		}
	})
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
