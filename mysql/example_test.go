package mysqllock_test

import (
	"context"
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
	locks, err := rowlock.New(store, rowlock.Options{TTL: 6 * time.Second, Owner: "web-1:4711"})
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
