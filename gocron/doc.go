// Package gocronlock lets the schedulers of github.com/go-co-op/gocron/v2 in several
// processes share their jobs: with a Locker each run of a job goes to one of them,
// with an Elector one of them runs all jobs. Its folder is gocron; import it by name:
//
//	import gocronlock "github.com/rowlock/rowlock/gocron"
//
// Which one? The Locker spreads the jobs and loses nothing when a process dies. Its
// ticks meet at the database, so it needs a MinHold longer than the clocks of the
// processes are apart, and shorter than the shortest period. The Elector asks the
// database only while it does not lead; when the leader dies nothing runs until its
// TTL is over.
//
// Neither makes a run happen exactly once. gocron does not stop a job whose lock is
// lost: a process that stands still for longer than the TTL may go on with its job
// while another runs it too. Where that matters, guard the job's transaction, or use
// Once (package mysqllock or mongolock), in the job itself.
package gocronlock
