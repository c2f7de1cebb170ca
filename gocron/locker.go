package gocronlock

import (
	"context"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/rowlock/rowlock"
)

// defaultMinHold is more than clocks that are kept by NTP differ, and less than any
// sensible period of a job that many processes share.
const defaultMinHold = 500 * time.Millisecond

// NewLocker makes a Locker for gocron.WithDistributedLocker or
// gocron.WithDistributedJobLocker: a run of a job begins only where the job's lock
// was free, at the first try. The others skip that run. The key is the job's name,
// 1 to 255 bytes; give each job one by gocron.WithName, because gocron's default is
// the name of its function, which several jobs may share.
//
// gocron unlocks as soon as the job has ended, and the schedulers' clocks differ: a
// late one would find a short job's lock free again, and run it a second time. So
// the lock is kept for at least 500 ms from its grant, by the database's clock
// (rowlock.MinHold). If your clocks are further apart say more, but less than the
// shortest period, or its next run is refused:
//
//	gocronlock.NewLocker(locks, rowlock.MinHold(30*time.Second)) // jobs that run every minute or less often
//
// gocron counts a duration job's period from the start of its scheduler: without
// gocron.WithStartAt, rounded to the period, or a cron expression, the schedulers do
// not even mean the same moments.
//
// opts are those of rowlock.Client.TryAcquire and go to each lock; the last one of a
// kind counts. While the job runs its lock is renewed. An error of Lock, which gocron
// hands to gocron.AfterLockError, matches rowlock.ErrHeld if another has the run; any
// other one means that nobody may have run it, and somebody should look.
func NewLocker(l rowlock.Locker, opts ...rowlock.Option) gocron.Locker {
	return locker{l, append([]rowlock.Option{rowlock.MinHold(defaultMinHold)}, opts...)}
}

type locker struct {
	locks rowlock.Locker
	opts  []rowlock.Option
}

func (l locker) Lock(ctx context.Context, key string) (gocron.Lock, error) {
	lease, err := l.locks.TryAcquire(ctx, key, l.opts...)
	if err != nil {
		return nil, err
	}
	return lock{lease}, nil
}

type lock struct{ lease *rowlock.Lease }

// Unlock is called with a context that may have ended. Release works then too.
func (l lock) Unlock(ctx context.Context) error { return l.lease.Release(ctx) }
