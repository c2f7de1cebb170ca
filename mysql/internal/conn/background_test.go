package conn

import (
	"database/sql"
	"testing"
)

// TestWorkBesideClose: what begins in the middle of Close, as the watchdog's timer does, is no data race with what waits
// for the rest (it was one of a sync.WaitGroup), and is run.
func TestWorkBesideClose(t *testing.T) {
	d := NewDB(DBOptions{SQL: new(sql.DB), Acquires: 1, Releases: 1})
	before := make(chan struct{})
	d.Work(func() { <-before })
	ran := make(chan struct{})
	go d.Work(func() { close(ran) })
	close(before)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	<-ran
}

// TestBackgroundWait: it waits for all that was begun before, and for what that begins.
func TestBackgroundWait(t *testing.T) {
	var b Background
	b.Wait()
	var ended int
	var first, second bool
	b.Run(func() {
		first = true
		b.Run(func() { second = true; ended++ })
	})
	b.Wait()
	if !first || !second || ended != 1 {
		t.Fatalf("after Wait: first %v, second %v, %d ended", first, second, ended)
	}
}
