package work

import (
	"runtime"
	"testing"
	"testing/synctest"
	"time"
)

// TestWorkers: a goroutine that has done its work does more, ends when there was none for a while, and at Close. One that a
// function ends by Goexit is not used again, and what it did counts as done.
func TestWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := new(Group)
		idle := func(want int) {
			t.Helper()
			synctest.Wait()
			w.mu.Lock()
			defer w.mu.Unlock()
			if n := len(w.workers.idle); n != want || w.n != 0 {
				t.Fatalf("%d goroutines are idle, want %d; %d under way", n, want, w.n)
			}
		}
		for range 5 {
			w.Fork(func() {})
			idle(1)
		}
		for range 2 * mostIdle {
			w.Fork(func() { time.Sleep(time.Millisecond) })
		}
		time.Sleep(2 * time.Millisecond)
		idle(mostIdle)
		for range 4 * linger / time.Millisecond { // one is used all the time
			w.Fork(func() {})
			time.Sleep(time.Millisecond)
		}
		idle(1)
		w.Fork(runtime.Goexit)
		idle(0)
		w.Go(func() {})
		idle(1)
		time.Sleep(3 * linger)
		idle(0)
		w.Fork(func() {})
		idle(1)
		<-w.Close()
		idle(0)
		w.Fork(func() {})
		idle(0)
	})
}
