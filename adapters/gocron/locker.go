package gocronlock

import (
	"context"
	"fmt"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/internal/period"
)

// NewLocker makes a Locker for gocron.WithDistributedLocker or
// gocron.WithDistributedJobLocker: a run of a job begins only where the job's lock
// was free, at the first try. The others skip that run. The key is the job's name,
// 1 to 255 bytes; give each job one by gocron.WithName, because gocron's default is
// the name of its function, which several jobs may share.
//
// Say what the shortest period of the jobs is, and the rest follows from it:
//
//	gocronlock.NewLocker(locks, gocronlock.Period(time.Minute))
//
// Two times matter, and both should be shorter than that period. The lock of a job is
// kept for at least MinHold from its grant, by the database's clock, because gocron
// unlocks as soon as the job has ended and the schedulers' clocks differ: a late one
// would find a short job's lock free again, and run it a second time. And when a
// process dies in a job, the job's lock outlives it by up to the TTL: runs that are
// due in that time are refused to everybody. Without Period the MinHold is 500 ms and
// the TTL 3 s, whatever rowlock.Options.TTL says; rowlock.MinHold and rowlock.TTL
// set each by itself.
//
// gocron counts a duration job's period from the start of its scheduler: without
// gocron.WithStartAt, rounded to the period, or a cron expression, the schedulers do
// not even mean the same moments.
//
// opts are those of rowlock.Client.TryAcquire and go to each lock; the last one of a
// kind counts. While the job runs its lock is renewed. An error of Lock, which gocron
// hands to gocron.AfterLockError and otherwise drops, matches rowlock.ErrHeld if
// another has the run; any other one means that nobody may have run it, and somebody
// should look. With a nil Locker each Lock is an error that matches rowlock.ErrInvalid.
func NewLocker(l rowlock.Locker, opts ...rowlock.Option) gocron.Locker {
	return locker{l, period.Before(opts)}
}

// Period is an option for NewLocker that sets the TTL and the MinHold by the shortest
// time between two runs of any job that uses the Locker. The TTL is 0.8 of d, at least 1 s
// and at most 30 s: a process that is killed in a job costs at most one further run of
// it, where d is a second or more. The MinHold is d/2, at most 30 s: clocks may be
// that far apart. Options after it override either. A d that is not positive is an
// error of Lock that matches rowlock.ErrInvalid.
func Period(d time.Duration) rowlock.Option { return period.Option(d) }

type locker struct {
	locks rowlock.Locker
	opts  []rowlock.Option
}

func (l locker) Lock(ctx context.Context, key string) (gocron.Lock, error) {
	if l.locks == nil {
		return nil, fmt.Errorf("gocronlock: lock %q: %w: the Locker is nil: give NewLocker the Client that rowlock.New made", key, rowlock.ErrInvalid)
	}
	lease, err := l.locks.TryAcquire(ctx, key, l.opts...)
	if err != nil {
		return nil, err
	}
	if lease == nil { // gocron would run the job without a lock
		return nil, fmt.Errorf("gocronlock: lock %q: %w: the Locker (%T) gave neither a lease nor an error", key, rowlock.ErrInvalid, l.locks)
	}
	return lock{lease}, nil
}

type lock struct{ lease *rowlock.Lease }

// Unlock is called with a context that may have ended. Release works then too.
func (l lock) Unlock(ctx context.Context) error { return l.lease.Release(ctx) }
