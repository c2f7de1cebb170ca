package workload

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/rowlock/rowlock/dev/verify/timed"
)

const (
	steadyFrom  = 5 * time.Second        // the least TTL for which there are steady keys
	steadyEvery = 200 * time.Millisecond // between two
	steadyKeys  = 1000                   // after so many it begins again
)

// steady takes keys that nobody else wants, and gives them back, at a steady pace. One that hangs keeps none from being
// asked for: their grants tell when locks can be had again, as Pulses tell it of the database. The other workers
// do not: of a long TTL they may wait for a key, or keep it, for a minute. Of a short one they do, and there is nothing to add.
func (s *space) steady(ctx context.Context, number int) {
	if s.task.TTL < steadyFrom {
		return
	}
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
		timed.Rest(ctx, steadyEvery)
	}
	all.Wait()
}
