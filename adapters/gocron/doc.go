// Package gocronlock lets the schedulers of github.com/go-co-op/gocron/v2 in several programs share their jobs: with a
// Locker each run of a job goes to one of them, with an Elector one of them runs all jobs. Its folder is adapters/gocron, a
// module of its own: import it by name.
//
//	s, err := gocron.NewScheduler(gocron.WithDistributedLocker(
//		gocronlock.NewLocker(locks, gocronlock.Period(5*time.Minute)), // the shortest time between two runs of a job
//	))
//	if err != nil { … }
//	_, err = s.NewJob(
//		gocron.CronJob("*/5 * * * *", false), // a time of day, not a DurationJob
//		gocron.NewTask(makeReport),
//		gocron.WithName("report"), // the lock's key
//	)
//	if err != nil { … }
//	s.Start()
//
// [NewLocker] and [NewElector] have an example each below. The guide is docs/guides/cron.md of the repository.
//
// # Which one
//
// The Locker spreads the jobs over the programs. Each run asks the database for its lock, so the Locker must know the
// shortest period of the jobs: option [Period]. The Elector stands for election by [Elector.Run] (rowlock.Lead), and a run
// asks only the clock.
//
// With a Locker the programs must be due at the same moment: use CronJob and the like. A DurationJob counts from each
// program's start: every program would run it, unless the lock is kept for nearly the time between two runs, by the option
// rowlock.MinHold after [Period].
//
// # What is lost when a program dies
//
//   - Locker: the run that the program was in, which nobody repeats, and runs of the same job that are due before its lock
//     ends, which are refused to everybody. With Period (of a second or more) that is at most one; otherwise those within
//     the TTL after the last renewal, or within MinHold after the grant if that is later. The refusals are plain
//     rowlock.ErrHeld. Other jobs lose nothing. A program that dies between two jobs costs only runs that MinHold covers.
//   - Elector: all runs of all jobs until the leader's TTL is over.
//
// # What is not promised
//
// Neither makes a run happen exactly once. gocron does not stop a job whose lock is lost: a program that freezes for longer
// than the TTL, or that cannot reach the database for so long, may go on with its job while another runs it too. If that
// matters, guard the job's transaction, or use Once (package mysqllock or mongolock) in the job: its mark also tells which
// runs are missing.
package gocronlock
