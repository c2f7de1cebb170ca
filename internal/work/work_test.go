package work

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestWork: after Close nothing enters, what runs may start more, and Close waits for all.
func TestWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := new(Group)
		start := time.Now()
		forked := false
		entered := w.Go(func() {
			time.Sleep(time.Second)
			w.Fork(func() { time.Sleep(time.Second) })
			w.ForkAfter(2*time.Second, func() { forked = true })
		})
		if !entered || !w.Do(func() {}) {
			t.Fatal("work that is open lets nothing enter")
		}
		idle := w.Close()
		if w.Do(func() {}) || w.Go(func() {}) {
			t.Error("work that is closed lets something enter")
		}
		<-w.Close() // the same
		<-idle
		if took := time.Since(start); took != 3*time.Second || !forked {
			t.Errorf("idle after %v, want 3s, when the last has ended", took)
		}
	})
}

// TestWorkWait: it waits for all that was begun before, and for what that begins.
func TestWorkWait(t *testing.T) {
	var w Group
	w.Wait()
	var ended int
	var first, second bool
	w.Fork(func() {
		first = true
		w.Fork(func() { second = true; ended++ })
	})
	w.Wait()
	if !first || !second || ended != 1 {
		t.Fatalf("after Wait: first %v, second %v, %d ended", first, second, ended)
	}
}
