package rowlock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/rowlock/rowlock"
)

// index makes the search index follow the catalogue, in one of many programs.
func index(ctx context.Context, locks rowlock.Locker, step func(context.Context, *rowlock.Lease) error) error {
	return rowlock.Lead(ctx, locks, "indexer", func(ctx context.Context, term *rowlock.Lease) error {
		for term.Err() == nil && ctx.Err() == nil { // the lease is held, and the program goes on
			if err := step(ctx, term); err != nil && term.Err() == nil {
				return err // resigns: another program leads
			}
		}
		return nil
	})
}

// One of many programs follows the catalogue. When it dies, another does.
func ExampleLead() {
	ctx := context.Background()
	locks := newLocks()
	defer locks.Close(ctx)
	steps := 0
	err := index(ctx, locks, func(context.Context, *rowlock.Lease) error {
		if steps++; steps == 3 {
			return errors.New("the index is full")
		}
		return nil
	})
	fmt.Println(steps, "steps:", err)
	// Output: 3 steps: the index is full
}

// route sends work to whoever leads.
func route(ctx context.Context, locks *rowlock.Client, to func(owner string, term int64)) error {
	for leader, err := range locks.Observe(ctx, "indexer") {
		switch {
		case errors.Is(err, rowlock.ErrClosed), errors.Is(err, rowlock.ErrInvalid):
			return err // the last value
		case err != nil:
			log.Printf("who leads is not known: %v", err) // it was leader; the loop goes on
		case leader.Held:
			to(leader.Owner, leader.Token)
		default:
			to("", leader.Token) // nobody leads
		}
	}
	return ctx.Err()
}

// A program follows who leads without standing for election.
func ExampleClient_Observe() {
	ctx, cancel := context.WithCancel(context.Background())
	locks := newLocks()
	defer locks.Close(context.Background())
	lease, err := locks.Acquire(ctx, "indexer")
	if err != nil {
		log.Fatal(err)
	}
	err = route(ctx, locks, func(owner string, term int64) {
		fmt.Println("somebody leads:", owner != "", "in this lease's term:", term == lease.Token())
		cancel()
	})
	fmt.Println(err)
	// Output:
	// somebody leads: true in this lease's term: true
	// context canceled
}

// reports makes a report each ten minutes, in one of many programs, until ctx ends.
func reports(ctx context.Context, locks rowlock.Locker, report func(context.Context) error) error {
	return rowlock.Every(ctx, locks, "report", 10*time.Minute, func(ctx context.Context, _ *rowlock.Lease) error {
		if err := report(ctx); err != nil {
			log.Printf("no report: %v", err) // the next one is due in ten minutes
		}
		return nil // an error would end Every
	})
}

// A job that one of many programs runs each ten minutes.
func ExampleEvery() {
	ctx, cancel := context.WithCancel(context.Background())
	locks := newLocks()
	defer locks.Close(context.Background())
	err := reports(ctx, locks, func(context.Context) error {
		fmt.Println("the report is made")
		cancel() // the program ends
		return nil
	})
	fmt.Println(errors.Is(err, context.Canceled))
	// Output:
	// the report is made
	// true
}
