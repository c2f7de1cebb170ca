package mysqllock

import (
	"context"
	"sync"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/internal/storekit"
)

// onces are the calls of Once under way. Two of one run with one lease write the
// same mark, so the second begins when it is known what became of the first: whoever
// asks for its mark after a lost commit does not find the other's.
type onces struct {
	mu    sync.Mutex
	under map[onceKey]chan struct{} // closed at the end
}

type onceKey struct {
	key   string
	token int64
	run   string
}

// begin waits for its turn; the caller calls end.
func (o *onces) begin(ctx context.Context, lease *rowlock.Lease, run string) (end func(), err error) {
	k := onceKey{lease.Key(), lease.Token(), run}
	for {
		o.mu.Lock()
		before, busy := o.under[k]
		if !busy {
			mine := make(chan struct{})
			if o.under == nil {
				o.under = make(map[onceKey]chan struct{})
			}
			o.under[k] = mine
			o.mu.Unlock()
			return func() {
				o.mu.Lock()
				delete(o.under, k)
				o.mu.Unlock()
				close(mine)
			}, nil
		}
		o.mu.Unlock()
		select {
		case <-before:
		case <-ctx.Done():
			return nil, orEnded(storekit.Leases{lease}, ctx.Err())
		}
	}
}
