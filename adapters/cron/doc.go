// Package cronlock lets the schedulers of github.com/robfig/cron/v3 in several programs share their jobs: each run of a job
// goes to one of them. Its folder is adapters/cron, a module of its own: import it by name.
//
//	job := cronlock.Job(cron.DefaultLogger, locks, "report", func(ctx context.Context, _ *rowlock.Lease) error {
//		return makeReport(ctx) // ctx is cancelled if the lock is lost
//	}, cronlock.Period(5*time.Minute)) // the shortest time between two runs
//	if _, err := scheduler.AddJob("*/5 * * * *", job); err != nil { … } // a time of day, not "@every 5m"
//	scheduler.Start()
//	…
//	stopped := scheduler.Stop() // no new runs
//	err := locks.Close(ctx)     // cancels the jobs that run, and waits for them; then close the store
//	<-stopped.Done()
//
// [Job] makes a job of a function that gets a context, [Wrap] puts the lock around a job that exists. Both have an example
// below. The guide is docs/guides/cron.md of the repository, and examples/cron a whole program without a scheduler.
//
// # Which program runs a job
//
// The one that finds the job's lock free at its first try. The others skip the run.
//
// The programs must be due at the same moment, so give the scheduler times of day. "@every 5m" counts from each program's
// start: every program would run the job, unless the lock is kept for nearly the time between two runs, by the option
// rowlock.MinHold after [Period].
//
// # What is lost when a program dies in a job
//
// Nobody repeats that run. Runs of the same job that are due before its lock ends are refused to everybody: with [Period]
// (of a second or more) at most one, otherwise those within the TTL after the last renewal, or within MinHold after the
// grant if that is later. Other jobs lose nothing.
//
// # What is not promised
//
// A run does not happen exactly once: a program that freezes for longer than the TTL may go on with its job while another
// runs it too. The context of a [Job] is cancelled then, but a frozen program does not see it. If that is not enough, guard
// the job's transaction, or use Once (package mysqllock or mongolock) in the job: its mark also tells which runs are
// missing.
package cronlock
