package mysqllock_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"math/rand/v2"
	"time"

	"github.com/rowlock/rowlock"
	mysqllock "github.com/rowlock/rowlock/mysql"
)

// night books the interest of a day, in chunks that take effect once each. It may be called again, and by any number of
// programs: what is done is not done again.
func night(ctx context.Context, store *mysqllock.Store, locks *rowlock.Client, day string, chunks int) error {
	return rowlock.Do(ctx, locks, "interest", func(ctx context.Context, lease *rowlock.Lease) error {
		for chunk := range chunks {
			if err := once(ctx, store, lease, fmt.Sprintf("%s, chunk %d", day, chunk), chunk); err != nil {
				return err
			}
		}
		return nil
	})
}

// once books one chunk, unless that was done before.
func once(ctx context.Context, store *mysqllock.Store, lease *rowlock.Lease, run string, chunk int) error {
	for {
		err := store.Once(ctx, lease, run, func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, "INSERT INTO example_reports (text) VALUES (?)", fmt.Sprintf("interest of chunk %d", chunk))
			return err // the effects and the mark of the run commit together
		})
		switch {
		case errors.Is(err, rowlock.ErrAlreadyRan):
			return nil
		case errors.Is(err, rowlock.ErrConflict): // another transaction was in the way; nothing took effect
			select {
			case <-time.After(time.Duration(10+rand.IntN(100)) * time.Millisecond):
			case <-ctx.Done():
				return err
			}
		default:
			return err // nil, or lost: run it again later, with the same day
		}
	}
}

// A nightly job in chunks: it goes on where it was stopped.
func ExampleStore_Once_chunks() {
	ctx := context.Background()
	store, locks, db := connect(ctx)
	defer store.Close()
	defer locks.Close(ctx)
	defer db.Close()
	if _, err := db.ExecContext(ctx, "DELETE FROM example_reports"); err != nil {
		log.Fatal(err)
	}

	day := time.Now().Format(time.RFC3339Nano) // a nightly job takes the date
	for _, chunks := range []int{2, 4, 4} {    // it was stopped after two; then it is called twice
		if err := night(ctx, store, locks, day, chunks); err != nil {
			log.Fatal(err)
		}
		var n int
		if err := db.QueryRowContext(ctx, "SELECT COUNT(*) FROM example_reports").Scan(&n); err != nil {
			log.Fatal(err)
		}
		fmt.Println(n, "chunks are booked")
	}
	// Output:
	// 2 chunks are booked
	// 4 chunks are booked
	// 4 chunks are booked
}
