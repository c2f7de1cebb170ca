package events

import (
	"context"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// TestOrder: events are told one after the other, in the order in which they came, and not in
// the goroutine of who adds them.
func TestOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []int
		q := New(func(e *int) { got = append(got, *e) }) // a race if two ran at a time
		for i := range 3 * Max {
			q.Add(&i, true)
			if i%500 == 499 {
				time.Sleep(time.Second)
			}
		}
		q.Flush(t.Context(), time.Second)
		if len(got) != 3*Max || !slices.IsSorted(got) || q.Dropped() != 0 {
			t.Errorf("%d events, %d dropped", len(got), q.Dropped())
		}
	})
}

// TestBound: user code that blocks delays nobody; what finds no room is counted, and urgent
// events have room that others leave.
func TestBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := make(chan struct{})
		told := 0
		q := New(func(*string) { <-free; told++ })
		first, other, urgent := "first", "other", "urgent"
		q.Add(&first, false)
		time.Sleep(time.Second) // it is told, and blocks
		start := time.Now()
		for range Max {
			q.Add(&other, false)
		}
		for range Max {
			q.Add(&urgent, true)
		}
		if time.Since(start) != 0 {
			t.Error("Add blocked")
		}
		if want := uint64(Max); q.Dropped() != want {
			t.Errorf("%d dropped, want %d", q.Dropped(), want)
		}
		q.Flush(t.Context(), time.Second) // gives up: the user's code blocks
		if took := time.Since(start); took != time.Second {
			t.Errorf("Flush took %v", took)
		}
		close(free)
		q.Flush(t.Context(), time.Second)
		if told != 1+Max {
			t.Errorf("%d told, want %d", told, 1+Max)
		}
	})
}

// TestFlush: it ends when all are told, or with its context.
func TestFlush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(func(*int) { time.Sleep(300 * time.Millisecond) })
		for i := range 4 {
			q.Add(&i, false)
		}
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		q.Flush(ctx, time.Second)
		if took := time.Since(start); took != 500*time.Millisecond {
			t.Errorf("with a context that ends: %v", took)
		}
		q.Flush(t.Context(), time.Second)
		if took := time.Since(start); took != 1200*time.Millisecond+gather {
			t.Errorf("all were told after %v", took)
		}
		q.Flush(t.Context(), time.Second)
	})
}

// TestGoexit: user code that ends the goroutine ends nothing else.
func TestGoexit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []int
		q := New(func(e *int) {
			got = append(got, *e)
			if *e == 1 {
				runtime.Goexit()
			}
		})
		for i := range 4 {
			q.Add(&i, false)
		}
		q.Flush(t.Context(), time.Second)
		if !slices.Equal(got, []int{0, 1, 2, 3}) {
			t.Errorf("told %v", got)
		}
	})
}
