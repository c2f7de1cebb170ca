package mysqllock

import (
	"context"
	"database/sql"
	"sync"
	"testing"

	"github.com/rowlock/rowlock"
)

// TestInTxOnABoundedPool: transactions that wait for a pool which is used up have the connections of those before them, and the
// program's own statements have a turn.
func TestInTxOnABoundedPool(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, l *lab) {
		l.store()
		db := l.poolOf(t)
		o := l.options()
		o.Connections, o.WakeupConns = 4, -1
		s, err := New(db, o)
		must(t, err)
		t.Cleanup(func() { _ = s.Close() })
		db.SetMaxOpenConns(8)
		p := l.programOn(t, s, rowlock.Options{})
		lease := p.lock(t, "k")
		ctx := patient(t)
		var mu sync.Mutex
		used := make(map[int]int) // transactions by session
		const workers, each = 16, 15
		var own, all sync.WaitGroup
		for range 4 {
			own.Go(func() {
				if _, err := db.ExecContext(ctx, "DO SLEEP(0.01)"); err != nil {
					t.Error(err)
				}
			})
		}
		for range workers {
			all.Go(func() {
				for range each {
					var id int
					if err := p.InTx(ctx, lease, func(ctx context.Context, tx *sql.Tx) error {
						return tx.QueryRowContext(ctx, "SELECT CONNECTION_ID()").Scan(&id)
					}); err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					used[id]++
					mu.Unlock()
				}
			})
		}
		own.Wait() // also while the transactions go on
		all.Wait()
		if n := len(used); n > workers*each/3 {
			t.Errorf("%d transactions were on %d connections", workers*each, n)
		}
	})
}
