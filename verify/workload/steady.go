package workload

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/rowlock/rowlock/verify/timed"
)

// steadyEvery is the longest between two keys of steady, and steadyKeys after how many it begins again.
const (
	steadyEvery = 200 * time.Millisecond
	steadyKeys  = 1000
)

// steady takes keys that nobody else wants, and gives them back, at a steady pace. One that hangs keeps none from being
// asked for: their grants tell when locks can be had again, as Pulses tell it of the database. The other workers
// do not: of a long TTL they may wait for a key, or keep it, for a minute.
func (s *space) steady(ctx context.Context, number int) {
	every := min(s.task.TTL/10, steadyEvery)
	var all sync.WaitGroup
	for i := 0; ctx.Err() == nil; i++ {
		w := newWorker(s, number+i)
		key := fmt.Sprintf("%s/%s/steady%d", s.task.Round, s.task.Name, i%steadyKeys)
		all.Go(func() {
			bound, cancel := context.WithTimeout(ctx, s.task.TTL)
			defer cancel()
			if h := w.take(bound, key, false); h != nil {
				h.release(ctx)
			}
		})
		timed.Rest(ctx, every)
	}
	all.Wait()
}
