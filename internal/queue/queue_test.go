package queue

import (
	"context"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

const most = 2000

// TestOrder: items are handed over one after the other, in the order in which they came, and not in
// the goroutine of who adds them.
func TestOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []int
		q := New(func(e *int) { got = append(got, *e) }, nil) // a race if two ran at a time
		for i := range 3 * most {
			if !q.Add(&i, most, false) {
				t.Fatal("no room")
			}
			if i%500 == 499 {
				time.Sleep(time.Second)
			}
		}
		q.Flush(t.Context(), time.Second)
		if len(got) != 3*most || !slices.IsSorted(got) {
			t.Errorf("%d items", len(got))
		}
	})
}

// TestBound: user code that blocks delays nobody; what finds no room is not taken.
func TestBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := make(chan struct{})
		told := 0
		q := New(func(*string) { <-free; told++ }, nil)
		first, other, urgent := "first", "other", "urgent"
		q.Add(&first, most, false)
		time.Sleep(time.Second) // it is told, and blocks
		start := time.Now()
		dropped := 0
		add := func(e *string, room int) {
			if !q.Add(e, room, false) {
				dropped++
			}
		}
		for range most {
			add(&other, most-500)
		}
		for range most {
			add(&urgent, most)
		}
		if time.Since(start) != 0 {
			t.Error("Add blocked")
		}
		if dropped != most {
			t.Errorf("%d dropped, want %d", dropped, most)
		}
		q.Flush(t.Context(), time.Second) // gives up: the user's code blocks
		if took := time.Since(start); took != time.Second {
			t.Errorf("Flush took %v", took)
		}
		close(free)
		q.Flush(t.Context(), time.Second)
		if told != 1+most {
			t.Errorf("%d told, want %d", told, 1+most)
		}
	})
}

// TestFlush: it ends when all are told, or with its context.
func TestFlush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(func(*int) { time.Sleep(300 * time.Millisecond) }, nil)
		for i := range 4 {
			q.Add(&i, most, false)
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
		}, nil)
		for i := range 4 {
			q.Add(&i, most, false)
		}
		q.Flush(t.Context(), time.Second)
		if !slices.Equal(got, []int{0, 1, 2, 3}) {
			t.Errorf("told %v", got)
		}
	})
}

// TestAfter: what is to be done when none is left is done once, and what it adds is handed over.
func TestAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []int
		var q *Queue[int]
		added := make(chan struct{})
		q = New(func(e *int) { <-added; got = append(got, *e) }, func() {
			got = append(got, -1)
			if len(got) < 5 {
				last := 9
				q.Add(&last, most, true)
			}
		})
		for i := range 3 {
			q.Add(&i, most, true)
		}
		close(added)
		q.Flush(t.Context(), time.Second)
		if !slices.Equal(got, []int{0, 1, 2, -1, 9, -1}) {
			t.Errorf("%v", got)
		}
	})
}
