package cronlock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/internal/period"
)

// Job makes a job that runs fn under the lock named key, where that is free:
//
//	scheduler.AddJob("*/5 * * * *", cronlock.Job(logger, locks, "report", report, cronlock.Period(5*time.Minute)))
//
// fn's context ends with the lease, and when the Client is closed; fn should return then.
// Two times matter, and both must be shorter than the time between two runs of the job.
// The lock is kept for at least MinHold from its grant, by the database's clock: a
// scheduler whose clock is late would find a short job's lock free again, and run it a
// second time. And when a program dies in the job, the lock outlives it by up to the
// TTL. [Period] sets both. Without it the MinHold is 500 ms and the TTL 3 s, whatever
// rowlock.Options.TTL says; rowlock.MinHold and rowlock.TTL set each by itself. opts are
// those of rowlock.Client.TryAcquire; the last one of a kind counts.
//
// The logger gets what becomes of a run. At Info: another program has it. As an error:
// what fn returned, a lock that was lost, and any other failure to get it, after which
// nobody may have run the job, and somebody should look. Each run is a try of its own, so
// runs go on when what the database refuses has been mended. A nil logger is
// cron.DefaultLogger. A panic of fn is passed on after the lock was released; cron.Recover
// catches it. The job may run concurrently with itself; its lock lets one run at a time.
func Job(logger cron.Logger, l rowlock.Locker, key string, fn func(context.Context, *rowlock.Lease) error, opts ...rowlock.Option) cron.Job {
	if logger == nil {
		logger = cron.DefaultLogger
	}
	return job{logger, l, key, fn, append(period.Before(opts), rowlock.NoWait())}
}

// Wrap makes a wrapper that puts the lock named key around a job, as Job does around a
// function. The job cannot be told that its lock was lost: the logger is.
//
//	chain := cron.NewChain(cron.Recover(logger), cronlock.Wrap(logger, locks, "report", cronlock.Period(5*time.Minute)))
//	scheduler.AddJob("*/5 * * * *", chain.Then(report))
//
// Each job needs a key, and so a wrapper, of its own: two jobs with one key exclude each
// other. So it is not for cron.WithChain, whose wrappers are all jobs'.
func Wrap(logger cron.Logger, l rowlock.Locker, key string, opts ...rowlock.Option) cron.JobWrapper {
	return func(j cron.Job) cron.Job {
		return Job(logger, l, key, func(context.Context, *rowlock.Lease) error {
			j.Run()
			return nil
		}, opts...)
	}
}

// Period is an option that sets the TTL and the MinHold by the shortest time between two
// runs of the job. The TTL is 0.8 of d, at least 1 s and at most 30 s: a program that is killed
// in the job costs at most one further run, where d is a second or more. The MinHold is
// d/2, at most 30 s: clocks may be that far apart. Options after it override either. A d
// that is not positive is an error that matches rowlock.ErrInvalid, which the logger gets
// at each run.
func Period(d time.Duration) rowlock.Option { return period.Option(d) }

type job struct {
	logger cron.Logger
	locks  rowlock.Locker
	key    string
	fn     func(context.Context, *rowlock.Lease) error
	opts   []rowlock.Option
}

// Run implements cron.Job.
func (j job) Run() {
	began := false
	fn := j.fn
	if fn != nil { // Do says what is wrong with a nil one
		fn = func(ctx context.Context, lease *rowlock.Lease) error {
			began = true
			return j.fn(ctx, lease)
		}
	}
	err := rowlock.Do(context.Background(), j.locks, j.key, fn, j.opts...)
	switch {
	case err == nil:
	case began:
		j.logger.Error(err, "a job failed, or may not have been alone", "key", j.key)
	case errors.Is(err, rowlock.ErrHeld):
		j.logger.Info("skip: another program has this run", "key", j.key, "err", err)
	default:
		j.logger.Error(fmt.Errorf("not run here: %w", err), "nobody may have run this job", "key", j.key)
	}
}
