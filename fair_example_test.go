package rowlock_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/rowlock/rowlock"
)

// The programs that wait get the key in the order in which they asked.
func ExampleFair() {
	ctx := context.Background()
	locks := newLocks()
	defer locks.Close(ctx)

	err := rowlock.Do(ctx, locks, "printer", func(ctx context.Context, lease *rowlock.Lease) error {
		info, err := locks.Inspect(ctx, "printer")
		if err != nil {
			return err
		}
		fmt.Println("programs that wait:", info.Waiting)
		return nil
	}, rowlock.Fair())
	if err != nil {
		log.Fatal(err)
	}

	lease, err := locks.TryAcquire(ctx, "printer", rowlock.Fair())
	if errors.Is(err, rowlock.ErrHeld) {
		fmt.Println("somebody has it, or waits for it")
		return
	}
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("nobody waits: it is ours")
	if err := lease.Release(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// programs that wait: 0
	// nobody waits: it is ours
}
