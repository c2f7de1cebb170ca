// Package cronlock lets the schedulers of github.com/robfig/cron/v3 in several programs
// share their jobs: each run of a job goes to one of them.
//
// [Job] makes a job of a function that gets a context, [Wrap] puts the lock around a job
// that is there. A run begins only where the job's lock was free at the first try; the
// others skip it.
//
// The programs must be due at the same moment: give the scheduler times of day. "@every 5m"
// counts from each program's start, so that each program would run the job, unless the
// lock is kept for nearly the time between two runs: option rowlock.MinHold after [Period].
//
// When a program dies in a job, nobody repeats that run, and runs of the same job that are
// due until its lock ends are refused to everybody. Other jobs lose nothing. With
// [Period] (of a second or more) at most one further run is lost; otherwise those within
// the TTL after the last renewal, or within MinHold after the grant if that is later.
//
// A run does not happen exactly once: a program that stands still for longer than the
// TTL may go on with its job while another runs it too. A job made by [Job] is told by
// its context, unless it stands still. Where that is not enough guard the job's
// transaction, or use Once (package mysqllock or mongolock) in the job: its mark also
// tells which runs are missing.
//
// At the end of a program stop the scheduler first, then close the Client, then the
// store. Client.Close ends the contexts of jobs that run, and waits for the jobs:
//
//	stopped := scheduler.Stop() // no new runs
//	err := locks.Close(ctx)     // ends what runs, and waits for it
//	<-stopped.Done()
package cronlock
