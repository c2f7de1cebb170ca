package rowlock_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/memory"
)

func ExampleObserver() {
	store := memory.New()
	audit := &rowlock.Observer{
		AcquireEnd: func(_ context.Context, e rowlock.AcquireEnd) {
			fmt.Println("acquire of", e.Name, "was", e.Outcome())
		},
		LeaseEnd: func(_ context.Context, e rowlock.LeaseEnd) {
			fmt.Println("lease of", e.Name, "was", e.End())
		},
	}
	locks, err := rowlock.New(store, rowlock.Options{KeyName: rowlock.UpTo("/"), Observers: []*rowlock.Observer{audit}})
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	lease, err := locks.Acquire(ctx, "import/42")
	if err != nil {
		log.Fatal(err)
	}
	lease.Release(ctx)
	locks.Close(ctx) // tells what is left
	// Output:
	// acquire of import was granted
	// lease of import was released
}

func ExampleClient_Leases() {
	locks, err := rowlock.New(memory.New(), rowlock.Options{})
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	defer locks.Close(ctx)
	lease, err := locks.Acquire(ctx, "report")
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Release(ctx)

	for _, held := range locks.Leases() {
		fmt.Println(held.Key, "is held, for", held.For.Round(time.Minute))
	}
	for _, wait := range locks.Waits() {
		fmt.Println(wait.Key, "is waited for, for", wait.For.Round(time.Minute))
	}
	// Output: report is held, for 0s
}
