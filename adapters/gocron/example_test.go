package gocronlock_test

import (
	"context"
	"fmt"
	"log"
	"sync"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/rowlock/rowlock"
	gocronlock "github.com/rowlock/rowlock/adapters/gocron"
	"github.com/rowlock/rowlock/memory"
)

// A job that one of several processes runs, every time it is due.
func Example() {
	locks, err := rowlock.New(memory.New(), rowlock.Options{}) // in earnest: mysqllock.Open(...) or mongolock.New(...)
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close(context.Background())

	s, err := gocron.NewScheduler(gocron.WithDistributedLocker(
		gocronlock.NewLocker(locks, gocronlock.Period(5*time.Minute)), // the shortest time between two runs of a job
	))
	if err != nil {
		log.Fatal(err)
	}
	ran := make(chan struct{})
	_, err = s.NewJob(
		gocron.CronJob("*/5 * * * *", false), // every five minutes
		gocron.NewTask(func() { fmt.Println("the report is made once"); close(ran) }),
		gocron.WithName("report"), // the lock's key
		gocron.WithStartAt(gocron.WithStartImmediately()),
	)
	if err != nil {
		log.Fatal(err)
	}
	s.Start()
	<-ran
	if err := s.Shutdown(); err != nil {
		log.Fatal(err)
	}
	// Output: the report is made once
}

// One of several processes runs all jobs.
func ExampleNewElector() {
	ctx := context.Background()                                                     // in earnest it ends with the program
	locks, err := rowlock.New(memory.New(), rowlock.Options{TTL: 15 * time.Second}) // how long nobody leads after a crash
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close(ctx)

	leader := gocronlock.NewElector(locks, "scheduler")
	electing, resign := context.WithCancel(ctx)
	ran, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- leader.Run(electing) }()
	s, err := gocron.NewScheduler(gocron.WithDistributedElector(leader))
	if err != nil {
		log.Fatal(err)
	}
	_, err = s.NewJob(gocron.DurationJob(10*time.Millisecond), gocron.NewTask(sync.OnceFunc(func() {
		fmt.Println("leads:", leader.IsLeader(ctx) == nil)
		close(ran)
	})))
	if err != nil {
		log.Fatal(err)
	}
	s.Start()
	<-ran

	if err := s.Shutdown(); err != nil { // waits for jobs
		log.Fatal(err)
	}
	resign() // another process leads at once
	fmt.Println("Run:", <-ended)
	// Output:
	// leads: true
	// Run: lead "scheduler": context canceled
}
