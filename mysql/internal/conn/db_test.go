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
