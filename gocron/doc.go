// Package gocronlock lets the schedulers of github.com/go-co-op/gocron/v2 in several
// processes share their jobs: with a Locker each run of a job goes to one of them,
// with an Elector one of them runs all jobs. Its folder is gocron; import it by name:
//
//	import gocronlock "github.com/rowlock/rowlock/gocron"
//
// Which one? The Locker spreads the jobs over the processes. Its ticks meet at the
// database, so it must know the shortest period of the jobs: option Period. The Elector
// stands for election by Run (rowlock.Lead), and a tick asks only the clock.
//
// With a Locker the processes must be due at the same moment: take CronJob and the like. A
// DurationJob counts from each process's start, so that each process would run it, unless
// the lock is kept for nearly the time between two runs: option rowlock.MinHold after [Period].
//
// What is lost when a process dies:
//
//   - Locker: the run that it was in, which nobody repeats, and runs of the same job
//     that are due until its lock ends, which are refused to everybody: with Period (of
//     a second or more) at most one, otherwise those within the TTL after its last
//     renewal, or within MinHold after the grant if that is later. The refusals are
//     plain rowlock.ErrHeld. Other jobs lose nothing. A process that dies between two
//     jobs costs nothing but runs that MinHold covers.
//   - Elector: all runs of all jobs until the leader's TTL is over.
//
// Neither makes a run happen exactly once. gocron does not stop a job whose lock is
// lost: a process that stands still for longer than the TTL, or that cannot reach the
// database for so long, may go on with its job while another runs it too. Where that
// matters, guard the job's transaction, or use Once (package mysqllock or mongolock),
// in the job itself: its mark also tells which runs are missing.
package gocronlock
