package mongolock

import (
	"sync"
	"time"
)

// One document that a foreign transaction has written stops the whole command it
// is in: those behind it are not reached, in whatever form the command is sent
// (ordered:false steps over errors, not over a wait). So a batch has little time,
// and one that was stopped goes on in smaller batches side by side, down to single
// keys, until only the one that is blocked has no answer.

// batchWait is the time of a command with n keys: an idle server needs a quarter of
// what is added for each.
func batchWait(n int) time.Duration {
	return partWait + time.Duration(n)*100*time.Microsecond
}

// parts cuts n entries into batches for the next round and runs do for each, a
// few at a time. It returns when all have.
func parts(n int, do func(from, to int)) {
	size := max(1, n/parallel)
	each((n+size-1)/size, func(i int) { do(i*size, min(n, (i+1)*size)) })
}

// each runs do for 0 to n-1, a few at a time, and returns when all have.
func each(n int, do func(i int)) {
	if n == 1 {
		do(0)
		return
	}
	var wg sync.WaitGroup
	slots := make(chan struct{}, parallel)
	for i := range n {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			do(i)
		})
	}
	wg.Wait()
}
