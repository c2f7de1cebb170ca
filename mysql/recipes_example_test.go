package mysqllock_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"sync"
	"time"

	"github.com/rowlock/rowlock"
	mysqllock "github.com/rowlock/rowlock/mysql"
)

const workers = 3

// open is done by whoever begins a round: more than once is as good as once.
func open(ctx context.Context, db *sql.DB, round string) error {
	_, err := db.ExecContext(ctx, "INSERT IGNORE INTO example_rounds (round, missing) VALUES (?, ?)", round, workers)
	return err
}

// step does a worker's part of a round and counts it down: both are committed, or neither, and
// at most once.
func step(ctx context.Context, store *mysqllock.Store, worker *rowlock.Lease, round string) error {
	run := fmt.Sprintf("%s, worker %d", round, worker.Slot())
	err := store.Once(ctx, worker, run, func(ctx context.Context, tx *sql.Tx) error {
		if err := part(ctx, tx, round, worker.Slot()); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, "UPDATE example_rounds SET missing=missing-1 WHERE round=?", round)
		return err
	})
	switch {
	case errors.Is(err, rowlock.ErrAlreadyRan):
		return nil // by this program before a failure, or by one that had the number and died
	case errors.Is(err, rowlock.ErrConflict):
		return step(ctx, store, worker, round) // nothing was committed: again
	}
	return err
}

// await returns when all parts of a round are done.
func await(ctx context.Context, db *sql.DB, round string) error {
	for {
		var missing int
		err := db.QueryRowContext(ctx, "SELECT missing FROM example_rounds WHERE round=?", round).Scan(&missing)
		if err != nil || missing == 0 {
			return err
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// work does the parts of one worker in all rounds. Nobody begins a round before all parts of the
// one before are done. A program that dies gives its number back within the TTL, and the next
// that takes it goes on where it stopped.
func work(ctx context.Context, store *mysqllock.Store, locks *rowlock.Client, db *sql.DB, job string, rounds ...string) error {
	return rowlock.Do(ctx, locks, job, func(ctx context.Context, worker *rowlock.Lease) error {
		for _, round := range rounds {
			if err := open(ctx, db, round); err != nil {
				return err
			}
			if err := step(ctx, store, worker, round); err != nil {
				return err
			}
			if err := await(ctx, db, round); err != nil {
				return err
			}
		}
		return nil
	}, rowlock.Slots(workers))
}

func part(ctx context.Context, tx *sql.Tx, round string, worker int) error {
	_, err := tx.ExecContext(ctx, "INSERT INTO example_parts (round, worker) VALUES (?, ?)", round, worker)
	return err
}

// Rounds of work with a barrier between them: each is a countdown in a table of one's own. One
// worker's step is made twice, as after a failure whose outcome is not known; a fourth program
// finds the work done.
func ExampleStore_Once_countdown() {
	ctx := context.Background()
	store, locks, db := connect(ctx)
	defer store.Close()
	defer locks.Close(ctx)
	defer db.Close()
	for _, table := range []string{"example_rounds (round VARCHAR(60) PRIMARY KEY, missing INT NOT NULL)", "example_parts (round VARCHAR(60), worker INT)"} {
		if _, err := db.ExecContext(ctx, "CREATE TABLE IF NOT EXISTS "+table+" ENGINE=InnoDB"); err != nil {
			log.Fatal(err)
		}
	}
	job := "sums " + rand.Text() // a nightly job would take the date
	rounds := []string{job + ", sort", job + ", merge"}

	err := rowlock.Do(ctx, locks, job, func(ctx context.Context, worker *rowlock.Lease) error {
		return errors.Join(open(ctx, db, rounds[0]), step(ctx, store, worker, rounds[0]), step(ctx, store, worker, rounds[0]))
	}, rowlock.Slots(workers)) // it goes, and does not know whether its step was counted
	if err != nil {
		log.Fatal(err)
	}
	var programs sync.WaitGroup
	for range workers + 1 {
		programs.Go(func() {
			if err := work(ctx, store, locks, db, job, rounds...); err != nil {
				log.Fatal(err)
			}
		})
	}
	programs.Wait()

	var parts, missing int
	if err := db.QueryRowContext(ctx, "SELECT COUNT(*) FROM example_parts WHERE round IN (?, ?)", rounds[0], rounds[1]).Scan(&parts); err != nil {
		log.Fatal(err)
	}
	if err := db.QueryRowContext(ctx, "SELECT SUM(missing) FROM example_rounds WHERE round IN (?, ?)", rounds[0], rounds[1]).Scan(&missing); err != nil {
		log.Fatal(err)
	}
	fmt.Println("parts done:", parts, "missing:", missing)
	// Output: parts done: 6 missing: 0
}
