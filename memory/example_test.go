package memory_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/memory"
)

// A test of what a program does when it loses its lock.
func ExampleStore_Expire() {
	ctx := context.Background()
	store := memory.New()
	locks, err := rowlock.New(store, rowlock.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close(ctx)

	err = rowlock.Do(ctx, locks, "report", func(ctx context.Context, lease *rowlock.Lease) error {
		store.Expire("report")
		_ = lease.Renew(ctx) // learns it now instead of in ten seconds
		<-ctx.Done()
		return nil
	})
	fmt.Println(errors.Is(err, rowlock.ErrLost))
	// Output: true
}
