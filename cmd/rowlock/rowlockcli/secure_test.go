package rowlockcli

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/locktest"
	"github.com/rowlock/rowlock/memory"
)

// TestRenewalBeforeTheCommand: a renewal that fails in passing is tried again before the command starts. One that cannot
// succeed is not, and the first error says why the command was not run.
func TestRenewalBeforeTheCommand(t *testing.T) {
	first, lasting := errors.New("the first"), &driver.Error{Lasting: true, Err: errors.New("no privilege")}
	fails := func(err error) locktest.Hook {
		return func(context.Context, *locktest.Call, locktest.Send) ([]driver.Result, error) { return nil, err }
	}
	for _, c := range []struct {
		name  string
		renew locktest.Hook
		ttl   time.Duration // a third of it is the time of all tries
		want  error
		calls uint64 // 0: at least two
	}{
		{"none fails", nil, time.Minute, nil, 1},
		{"one fails", locktest.Once(fails(first)), time.Minute, nil, 2},
		{"it lasts", fails(lasting), time.Minute, lasting, 1},
		{"an outage", then(fails(first), locktest.Fail), 6 * time.Second, first, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			store := locktest.NewFault(memory.New())
			locks, err := rowlock.New(store, rowlock.Options{TTL: time.Hour})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = locks.Close(context.Background()) })
			lease, err := locks.Acquire(t.Context(), "k")
			if err != nil {
				t.Fatal(err)
			}
			store.On(locktest.OpRenew, c.renew)
			r := &run{f: runFlags{ttl: duration(c.ttl)}, keys: []string{"k"}, store: &opened{Store: store}, lease: &hold{lease, []*rowlock.Lease{lease}}}
			if err := r.secure(); !errors.Is(err, c.want) {
				t.Errorf("%v, want %v", err, c.want)
			}
			if n := store.Calls(locktest.OpRenew); c.calls > 0 && n != c.calls || n == 1 && c.calls == 0 {
				t.Errorf("%d renewals were sent, want %d (0: several)", n, c.calls)
			}
		})
	}
}

// then does one hook for the first call and the other for those after it.
func then(first, others locktest.Hook) locktest.Hook {
	once := locktest.Once(first)
	return func(ctx context.Context, c *locktest.Call, send locktest.Send) ([]driver.Result, error) {
		return once(ctx, c, func(ctx context.Context) ([]driver.Result, error) { return others(ctx, c, send) })
	}
}
