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

// The quickstart: one program at a time does the work.
func Example() {
	ctx := context.Background()
	store, err := mysqllock.Open(os.Getenv("ROWLOCK_TEST_MYSQL_DSN"), mysqllock.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	if err := store.Migrate(ctx); err != nil { // creates the tables that are missing
		log.Fatal(err)
	}
	locks, err := rowlock.New(store, rowlock.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close(ctx)

	err = rowlock.Do(ctx, locks, "report", func(ctx context.Context, lease *rowlock.Lease) error {
		fmt.Println("nobody else makes the report now")
		return ctx.Err() // ctx ends if the lock is lost
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output: nobody else makes the report now
}

// Three in the morning, a stuck lock: who has it, and free it.
func ExampleStore_ForceRelease() {
	ctx := context.Background()
	store, err := mysqllock.Open(os.Getenv("ROWLOCK_TEST_MYSQL_DSN"), mysqllock.Options{Prefix: "example"})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	if err := store.Migrate(ctx); err != nil {
		log.Fatal(err)
	}
	locks, err := rowlock.New(store, rowlock.Options{TTL: time.Second, Owner: "web-1:4711"})
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close(ctx)
	lease, err := locks.Acquire(ctx, "import/customers")
	if err != nil {
		log.Fatal(err)
	}

	held, err := store.List(ctx, "import/", "", 100) // every key that begins so
	if err != nil {
		log.Fatal(err)
	}
	for _, info := range held {
		fmt.Println(info.Key, "held:", info.Held, "by", info.Owner)
	}
	if _, err := store.ForceRelease(ctx, "import/customers"); err != nil {
		log.Fatal(err)
	}
	<-lease.Done() // the holder learns of it at its next renewal
	var lost *rowlock.LostError
	if errors.As(lease.Err(), &lost) {
		fmt.Println("lost:", lost.Reason)
	}
	// Output:
	// import/customers held: true by web-1:4711
	// lost: forced
}

// exampleTable is what the transactions of the examples write, and its pool.
func exampleTable(ctx context.Context) (*sql.DB, error) {
	db, err := sql.Open("mysql", os.Getenv("ROWLOCK_TEST_MYSQL_DSN"))
	if err != nil {
		return nil, err
	}
	_, err = db.ExecContext(ctx, "CREATE TABLE IF NOT EXISTS example_reports (id BIGINT AUTO_INCREMENT PRIMARY KEY, text VARCHAR(100)) ENGINE=InnoDB")
	return db, err
}

// A transaction that is never committed after somebody else was granted the key.
func ExampleStore_InTx() {
	ctx := context.Background()
	store, err := mysqllock.Open(os.Getenv("ROWLOCK_TEST_MYSQL_DSN"), mysqllock.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	if err := store.Migrate(ctx); err != nil {
		log.Fatal(err)
	}
	locks, err := rowlock.New(store, rowlock.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close(ctx)
	db, err := exampleTable(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()

	err = rowlock.Do(ctx, locks, "report", func(ctx context.Context, lease *rowlock.Lease) error {
		return store.InTx(ctx, lease, func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, "INSERT INTO example_reports (text) VALUES ('in a transaction')")
			return err
		})
	})
	switch {
	case errors.Is(err, rowlock.ErrLost):
		fmt.Println("somebody else has the lock now; nothing was written")
	case errors.Is(err, rowlock.ErrConflict):
		fmt.Println("another transaction was in the way; nothing was written, try again")
	case err != nil:
		log.Fatal(err)
	default:
		fmt.Println("written")
	}
	// Output: written
}

// A nightly job over any number of programs that takes effect once.
func ExampleStore_Once() {
	ctx := context.Background()
	store, err := mysqllock.Open(os.Getenv("ROWLOCK_TEST_MYSQL_DSN"), mysqllock.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	if err := store.Migrate(ctx); err != nil {
		log.Fatal(err)
	}
	locks, err := rowlock.New(store, rowlock.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close(ctx)
	db, err := exampleTable(ctx)
	if err != nil {
		log.Fatal(err)
	}
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
	store, err := mysqllock.Open(os.Getenv("ROWLOCK_TEST_MYSQL_DSN"), mysqllock.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	if err := store.Migrate(ctx); err != nil {
		log.Fatal(err)
	}
	locks, err := rowlock.New(store, rowlock.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close(ctx)
	db, err := exampleTable(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()

	err = rowlock.Do(ctx, locks, "report", func(ctx context.Context, lease *rowlock.Lease) error {
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
