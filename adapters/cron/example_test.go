package cronlock_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/rowlock/rowlock"
	cronlock "github.com/rowlock/rowlock/adapters/cron"
	"github.com/rowlock/rowlock/memory"
)

// schedule adds a job that one of many programs runs, each time that it is due.
func schedule(scheduler *cron.Cron, locks rowlock.Locker, report func(context.Context) error) error {
	job := cronlock.Job(cron.DefaultLogger, locks, "report", func(ctx context.Context, _ *rowlock.Lease) error {
		return report(ctx) // ctx ends if the lock is lost
	}, cronlock.Period(5*time.Minute)) // the time between two runs
	_, err := scheduler.AddJob("*/5 * * * *", job)
	return err
}

// A job that one of several programs runs, every time it is due.
func Example() {
	locks, err := rowlock.New(memory.New(), rowlock.Options{}) // in earnest: mysqllock.Open(...) or mongolock.New(...)
	if err != nil {
		log.Fatal(err)
	}
	scheduler := cron.New()
	err = schedule(scheduler, locks, func(context.Context) error {
		fmt.Println("the report is made once")
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	scheduler.Start()
	for range 2 { // as if it were due twice, in two programs
		scheduler.Entries()[0].WrappedJob.Run()
	}

	stopped := scheduler.Stop() // no new runs
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := locks.Close(ctx); err != nil { // ends what runs, and waits for it
		log.Fatal(err)
	}
	<-stopped.Done()
	// Output: the report is made once
}

// A job that is there already.
func ExampleWrap() {
	ctx := context.Background()
	locks, err := rowlock.New(memory.New(), rowlock.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close(ctx)
	report := cron.FuncJob(func() { fmt.Println("the report is made once") })

	chain := cron.NewChain(
		cron.Recover(cron.DefaultLogger),
		cronlock.Wrap(cron.DefaultLogger, locks, "report", cronlock.Period(5*time.Minute)),
	)
	job := chain.Then(report) // scheduler.AddJob("*/5 * * * *", job)
	job.Run()
	job.Run() // MinHold keeps it: the other program's clock is late
	// Output: the report is made once
}
