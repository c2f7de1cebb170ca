package memory

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/locktest"
)

// harness is a lock space of its own. It lives in one process, so the cases with
// processes and servers do not exist.
func harness(testing.TB) locktest.Harness {
	space := New()
	return locktest.Harness{
		Open: func(testing.TB) driver.Store {
			return program{space, space, space, space, space, space, space, space}
		},
		InTx: func(ctx context.Context, _ driver.Store, fn func(context.Context) error, leases ...*rowlock.Lease) error {
			return space.InTx(ctx, leases[0], fn, leases[1:]...)
		},
		Guard: func(_ testing.TB, _ driver.Store, lease *rowlock.Lease) (func() error, error) {
			open, end, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
			go func() {
				done <- space.InTx(context.Background(), lease, func(context.Context) error {
					close(open)
					<-end
					return nil
				})
			}()
			select {
			case <-open:
				return func() error { close(end); return <-done }, nil
			case err := <-done:
				return nil, err
			}
		},
		Dead: func(t testing.TB, prefix string, n int) {
			space.mu.Lock()
			defer space.mu.Unlock()
			ago := time.Now().Add(-48 * time.Hour)
			for i := range n {
				space.rows[fmt.Sprint(prefix, i)] = &row{
					id: driver.HoldID{1}, owner: "dead", token: nextToken(0, ago),
					times: times{acquiredAt: ago, expiresAt: ago, releasedAt: ago},
				}
			}
		},
	}
}

// program is a Store without Close, which would close it for every program of the
// lock space.
type program struct {
	driver.Store
	driver.Reaper
	driver.Lister
	driver.Forcer
	driver.ForcerIf
	driver.Counter
	driver.Clock
	driver.Liner
}

// Unwrap lets the lock space guard leases of the program.
func (p program) Unwrap() driver.Store { return p.Store }

// trips is a program each of whose calls takes a millisecond: in virtual time, cases that work for some time end by it.
type trips struct{ program }

func (p trips) Acquire(ctx context.Context, r []driver.Request) ([]driver.Result, error) {
	time.Sleep(time.Millisecond)
	return p.program.Acquire(ctx, r)
}

func (p trips) Release(ctx context.Context, h []driver.Hold) ([]driver.Result, error) {
	time.Sleep(time.Millisecond)
	return p.program.Release(ctx, h)
}

// virtual is a lock space for a bubble.
func virtual(t testing.TB) locktest.Harness {
	h := harness(t)
	open := h.Open
	h.Open = func(t testing.TB) driver.Store { return trips{open(t).(program)} }
	return h
}

func TestConformance(t *testing.T) { t.Parallel(); locktest.RunVirtual(t, virtual) }

func BenchmarkStore(b *testing.B) { locktest.Bench(b, harness(b)) }
