package rowlock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/rowlock/rowlock"
)

// Many read at the same time; one that writes is alone.
func ExampleShared() {
	ctx := context.Background()
	locks := newLocks()
	defer locks.Close(ctx)

	report := func(name string) error {
		return rowlock.Do(ctx, locks, "prices", func(ctx context.Context, lease *rowlock.Lease) error {
			fmt.Println("report", name)
			_, err := locks.TryAcquire(ctx, "prices") // what changes them
			fmt.Println("prices may change meanwhile:", !errors.Is(err, rowlock.ErrHeld))
			return nil
		}, rowlock.Shared())
	}
	if err := report("A"); err != nil {
		log.Fatal(err)
	}
	err := rowlock.Do(ctx, locks, "prices", func(context.Context, *rowlock.Lease) error {
		fmt.Println("new prices")
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// report A
	// prices may change meanwhile: false
	// new prices
}

// refreshing makes the cache anew each five minutes, in one of many programs, until ctx ends.
func refreshing(ctx context.Context, locks rowlock.Locker, refresh func(context.Context, *rowlock.Lease) error) error {
	return rowlock.Every(ctx, locks, "prices refresh", 5*time.Minute, func(ctx context.Context, _ *rowlock.Lease) error {
		if err := rowlock.Do(ctx, locks, "prices", refresh); err != nil { // waits for readers, and keeps new ones out
			log.Printf("prices are old: %v", err) // the next refresh is due in five minutes
		}
		return nil // an error would end Every
	})
}

// reading looks into the cache, beside other readers.
func reading(ctx context.Context, locks rowlock.Locker, read func(context.Context, *rowlock.Lease) error) error {
	return rowlock.Do(ctx, locks, "prices", read, rowlock.Shared())
}

// A cache that many read, and that one of many programs makes anew each five minutes.
func ExampleShared_refresh() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	locks := newLocks()
	defer locks.Close(context.Background())

	refreshed := make(chan struct{})
	go func() {
		err := refreshing(ctx, locks, func(context.Context, *rowlock.Lease) error {
			fmt.Println("new prices")
			close(refreshed)
			return nil
		})
		if ctx.Err() == nil && !errors.Is(err, rowlock.ErrClosed) {
			log.Fatal(err) // it could not begin: nobody would notice that prices stay old
		}
	}()
	<-refreshed
	err := reading(ctx, locks, func(context.Context, *rowlock.Lease) error { // long before the next refresh
		fmt.Println("read")
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// new prices
	// read
}

// At most three workers at once, over all programs. Each has a number that no other has.
func ExampleSlots() {
	ctx := context.Background()
	locks := newLocks()
	defer locks.Close(ctx)

	for range 4 {
		lease, err := locks.TryAcquire(ctx, "importers", rowlock.Slots(3))
		if errors.Is(err, rowlock.ErrHeld) {
			fmt.Println("three are at work")
			continue
		} else if err != nil {
			log.Fatal(err)
		}
		fmt.Println("worker", lease.Slot()) // leases end when the client is closed
	}
	// Output:
	// worker 0
	// worker 1
	// worker 2
	// three are at work
}

// An exclusive lease of the key waits until all workers have stopped, and keeps new ones out.
func ExampleSlots_maintenance() {
	ctx := context.Background()
	locks := newLocks()
	defer locks.Close(ctx)

	err := rowlock.Do(ctx, locks, "importers", func(ctx context.Context, lease *rowlock.Lease) error {
		_, err := locks.TryAcquire(ctx, "importers", rowlock.Slots(3))
		fmt.Println("no worker runs:", errors.Is(err, rowlock.ErrHeld))
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output: no worker runs: true
}
