package rowlock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/memory"
)

// newLocks makes a Client over a store in memory; a program has one over MySQL or
// MongoDB, see packages mysqllock and mongolock.
func newLocks() *rowlock.Client {
	locks, err := rowlock.New(memory.New(), rowlock.Options{})
	if err != nil {
		log.Fatal(err)
	}
	return locks
}

// tick is what each pod does at each tick of its own clock.
func tick(ctx context.Context, locks rowlock.Locker, job func(context.Context, *rowlock.Lease) error) error {
	err := rowlock.Do(ctx, locks, "report", job, rowlock.NoWait(),
		rowlock.MinHold(9*time.Minute)) // the tick is every 10 minutes: a bit less
	if errors.Is(err, rowlock.ErrHeld) {
		return nil // another pod has it, or had it at this tick
	}
	return err // anything else is an alert
}

// The job that one pod of many should run, once in ten minutes, whatever their
// clocks say: NoWait does not queue, MinHold keeps the key taken after the job.
func ExampleDo_oncePerPeriod() {
	ctx := context.Background()
	locks := newLocks()
	defer locks.Close(ctx)
	for range 3 {
		err := tick(ctx, locks, func(context.Context, *rowlock.Lease) error {
			fmt.Println("the job runs")
			return nil
		})
		if err != nil {
			log.Fatal(err)
		}
	}
	// Output: the job runs
}

// A lock that somebody else has is no failure.
func ExampleClient_TryAcquire() {
	ctx := context.Background()
	locks := newLocks()
	defer locks.Close(ctx)
	first, err := locks.TryAcquire(ctx, "report")
	if err != nil {
		log.Fatal(err)
	}
	defer first.Release(ctx)

	_, err = locks.TryAcquire(ctx, "report")
	var held *rowlock.HeldError
	if errors.As(err, &held) {
		fmt.Println(held.Key, "is held")
	}
	// Output: report is held
}

// Long work asks before each step that others can see.
func ExampleLease_Err() {
	ctx := context.Background()
	locks := newLocks()
	defer locks.Close(ctx)
	lease, err := locks.Acquire(ctx, "report", rowlock.TTL(time.Minute))
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Release(ctx)
	for page := 1; page <= 2; page++ {
		if err := lease.Err(); err != nil { // looks at the clock: also right in a process that was frozen
			log.Fatal(err)
		}
		fmt.Println("page", page)
	}
	// Output:
	// page 1
	// page 2
}

// Calls that take a context end when the lock does.
func ExampleLease_Context() {
	locks := newLocks()
	defer locks.Close(context.Background())
	lease, err := locks.Acquire(context.Background(), "report")
	if err != nil {
		log.Fatal(err)
	}
	ctx := lease.Context(context.Background()) // for queries and requests of the work
	if err := lease.Release(context.Background()); err != nil {
		log.Fatal(err)
	}
	<-ctx.Done()
	fmt.Println(ctx.Err(), "because", context.Cause(ctx))
	// Output: context canceled because rowlock: released
}

// shutdown is the end of a program, after the signal that ends ctx.
func shutdown(ctx context.Context, locks *rowlock.Client) error {
	// ctx is signal.NotifyContext(…, os.Interrupt, syscall.SIGTERM), and what each Do was given.
	<-ctx.Done()
	ending, cancel := context.WithTimeout(context.Background(), 25*time.Second) // Kubernetes kills after 30 s
	defer cancel()
	return locks.Close(ending) // waits for the functions of Do, then releases what is left; store.Close() comes after it
}

// The end of a program: the context of its work ends, Close waits for the work, and
// until then nobody else can begin it.
func ExampleClient_Close() {
	store := memory.New()
	locks, err := rowlock.New(store, rowlock.Options{})
	if err != nil {
		log.Fatal(err)
	}
	ctx, sigterm := context.WithCancel(context.Background()) // signal.NotifyContext(…)
	works := make(chan struct{})
	go rowlock.Do(ctx, locks, "report", func(ctx context.Context, _ *rowlock.Lease) error {
		close(works)
		<-ctx.Done()
		fmt.Println("the work ends")
		return ctx.Err()
	})
	<-works
	sigterm()
	if err := shutdown(ctx, locks); err != nil {
		log.Fatal(err)
	}
	fmt.Println("the keys are free")
	// Output:
	// the work ends
	// the keys are free
}
