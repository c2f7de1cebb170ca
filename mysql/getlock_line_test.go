package mysqllock

import (
	"sync"
	"testing"
	"time"

	"github.com/rowlock/rowlock"
)

// TestP23_AReleaseWakesTheNextAlone: of programs that wait with Fair a release wakes the one whose
// turn it is, and keeps the others asleep: so a hold costs few statements, however many wait.
func TestP23_AReleaseWakesTheNextAlone(t *testing.T) {
	each(t, func(t *testing.T, l *lab) {
		const programs, holds, most = 12, 10, 19
		clients, stores := waiters(t, l, programs, 1)
		least := uint64(holds * programs * 1000)
		for try := 0; try < 4 && least > most*programs*holds; try++ { // on a busy machine tickets are renewed more often
			sum := func() (n uint64) {
				for _, s := range stores {
					n += s.Statements()
				}
				return n
			}
			before := sum()
			var wg sync.WaitGroup
			for _, c := range clients {
				wg.Go(func() {
					for range holds {
						lease, err := c.Acquire(patient(t), "k", rowlock.Fair())
						if err != nil {
							t.Error(err)
							return
						}
						time.Sleep(5 * time.Millisecond)
						if err := lease.Release(t.Context()); err != nil {
							t.Error(err)
						}
					}
				})
			}
			wg.Wait()
			least = min(least, sum()-before)
			t.Logf("%.1f statements a hold", float64(sum()-before)/(programs*holds))
		}
		if least > most*programs*holds {
			t.Errorf("P23: %d statements for %d holds, want at most %d for one", least, programs*holds, most)
		}
	})
}
