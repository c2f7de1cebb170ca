package mysqllock_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/rowlock/rowlock"
	mysqllock "github.com/rowlock/rowlock/mysql"
)

// connect gives the examples of transactions a Store, a Client and a pool of their
// own for a table that they write.
func connect(ctx context.Context) (*mysqllock.Store, *rowlock.Client, *sql.DB) {
	store, err := mysqllock.Open(os.Getenv("ROWLOCK_TEST_MYSQL_DSN"), mysqllock.Options{})
	if err != nil {
		log.Fatal(err)
	}
	if err := store.Migrate(ctx); err != nil {
		log.Fatal(err)
	}
	locks, err := rowlock.New(store, rowlock.Options{})
	if err != nil {
		log.Fatal(err)
	}
	db, err := sql.Open("mysql", os.Getenv("ROWLOCK_TEST_MYSQL_DSN"))
	if err != nil {
		log.Fatal(err)
	}
	_, err = db.ExecContext(ctx, "CREATE TABLE IF NOT EXISTS example_reports (id BIGINT AUTO_INCREMENT PRIMARY KEY, text VARCHAR(100)) ENGINE=InnoDB")
	if err != nil {
		log.Fatal(err)
	}
	return store, locks, db
}

// makeReport is the code that README.md begins with.
func makeReport(ctx context.Context, locks *rowlock.Client, store *mysqllock.Store, write func(context.Context, *sql.Tx) error) error {
	return rowlock.Do(ctx, locks, "report", func(ctx context.Context, lease *rowlock.Lease) error {
		return store.InTx(ctx, lease, func(ctx context.Context, tx *sql.Tx) error { // a transaction that checks the lock
			return write(ctx, tx) // one program at a time, on all machines; ctx is cancelled if the lock is lost
		})
	})
}

// One program at a time writes the report, and none commits after it has lost the lock.
func ExampleStore_InTx_underDo() {
	ctx := context.Background()
	store, locks, db := connect(ctx)
	defer store.Close()
	defer locks.Close(ctx)
	defer db.Close()

	err := makeReport(ctx, locks, store, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO example_reports (text) VALUES ('one at a time')")
		return err
	})
	fmt.Println(err)
	// Output: <nil>
}

// A transaction that is never committed after somebody else was granted the key.
func ExampleStore_InTx() {
	ctx := context.Background()
	store, locks, db := connect(ctx)
	defer store.Close()
	defer locks.Close(ctx)
	defer db.Close()

	err := rowlock.Do(ctx, locks, "report", func(ctx context.Context, lease *rowlock.Lease) error {
		err := store.InTx(ctx, lease, func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, "INSERT INTO example_reports (text) VALUES ('in a transaction')")
			return err
		})
		switch { // the error of InTx, not that of Do: a lock that is lost after the commit is an error of Do
		case errors.Is(err, rowlock.ErrLost):
			fmt.Println("somebody else has the lock now; nothing was written")
		case errors.Is(err, rowlock.ErrConflict):
			fmt.Println("another transaction was in the way; nothing was written, try again")
		case err == nil:
			fmt.Println("written")
		}
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output: written
}

// A nightly job over any number of programs that takes effect once.
func ExampleStore_Once() {
	ctx := context.Background()
	store, locks, db := connect(ctx)
	defer store.Close()
	defer locks.Close(ctx)
	defer db.Close()

	run := time.Now().Format(time.RFC3339Nano) // a nightly job would take the date
	for range 2 {                              // two programs, or one that was started again
		err := rowlock.Do(ctx, locks, "nightly", func(ctx context.Context, lease *rowlock.Lease) error {
			return store.Once(ctx, lease, run, func(ctx context.Context, tx *sql.Tx) error {
				_, err := tx.ExecContext(ctx, "INSERT INTO example_reports (text) VALUES ('nightly')")
				return err
			})
		})
		switch {
		case err == nil:
			fmt.Println("done")
		case errors.Is(err, rowlock.ErrAlreadyRan):
			fmt.Println("it was done before")
		default:
			log.Fatal(err) // try again: it is never done twice
		}
	}
	// Output:
	// done
	// it was done before
}

// A guard in a transaction of one's own, on one's own pool.
func ExampleStore_Guard() {
	ctx := context.Background()
	store, locks, db := connect(ctx)
	defer store.Close()
	defer locks.Close(ctx)
	defer db.Close()

	err := rowlock.Do(ctx, locks, "report", func(ctx context.Context, lease *rowlock.Lease) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		if err := store.Guard(ctx, tx, lease); err != nil { // first
			return err
		}
		if _, err := tx.ExecContext(ctx, "INSERT INTO example_reports (text) VALUES ('guarded')"); err != nil {
			return err
		}
		return tx.Commit()
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("written")
	// Output: written
}

// Two accounts are locked for one transaction, in the same order by whoever does it.
func ExampleStore_LockTx() {
	ctx := context.Background()
	store, locks, db := connect(ctx)
	defer store.Close()
	defer locks.Close(ctx)
	defer db.Close()

	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer tx.Rollback()
	if err := store.LockTx(ctx, tx, "account/7", "account/3"); err != nil { // before anything is read
		log.Fatal(err)
	}
	if _, err := tx.ExecContext(ctx, "INSERT INTO example_reports (text) VALUES ('moved 10 from 7 to 3')"); err != nil {
		log.Fatal(err)
	}
	if err := tx.Commit(); err != nil { // frees both
		log.Fatal(err)
	}
	fmt.Println("moved")
	// Output: moved
}
