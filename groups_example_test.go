package rowlock_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/memory"
)

// transfer moves money between two accounts. (In a program store is one of package mysqllock
// or mongolock, and fn writes in the transaction.)
func transfer(ctx context.Context, store *memory.Store, locks *rowlock.Client, from, to string) error {
	accounts, err := locks.AcquireAll(ctx, rowlock.Keys("account/"+from, "account/"+to))
	if err != nil {
		return err
	}
	defer accounts.Release(ctx)
	leases := accounts.Leases() // in the order in which they were wanted
	return store.InTx(ctx, leases[0], func(ctx context.Context) error {
		fmt.Printf("from %s to %s\n", leases[0].Key(), leases[1].Key())
		return nil
	}, leases[1:]...)
}

// Two accounts, whatever their order: AcquireAll gets both or none, and the guard of the
// transaction names both.
func ExampleClient_AcquireAll() {
	ctx := context.Background()
	store := memory.New()
	locks, err := rowlock.New(store, rowlock.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close(ctx)
	for _, to := range []string{"anne", "zoe"} {
		if err := transfer(ctx, store, locks, "bob", to); err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// from account/bob to account/anne
	// from account/bob to account/zoe
}

// A try gets all keys or none, and says which one another has.
func ExampleClient_TryAcquireAll() {
	ctx := context.Background()
	locks := newLocks()
	defer locks.Close(ctx)
	other, err := locks.Acquire(ctx, "account/zoe")
	if err != nil {
		log.Fatal(err)
	}
	defer other.Release(ctx)

	_, err = locks.TryAcquireAll(ctx, rowlock.Keys("account/zoe", "account/bob"))
	var held *rowlock.HeldError
	if errors.As(err, &held) {
		fmt.Println(held.Key, "is held, and nothing was taken")
	}
	// Output: account/zoe is held, and nothing was taken
}

// Options of one key: it is guarded, and its holder is named.
func ExampleWant() {
	ctx := context.Background()
	locks := newLocks()
	defer locks.Close(ctx)
	group, err := locks.AcquireAll(ctx, []rowlock.Want{
		{Key: "stock/17", Options: []rowlock.Option{rowlock.Guarded(), rowlock.Owner("order 4711")}},
		{Key: "stock/18"},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer group.Release(ctx)
	info, err := locks.Inspect(ctx, "stock/17")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(info.Key, "is held by", info.Owner)
	// Output: stock/17 is held by order 4711
}

// One of many reports of a tenant: each has a key of its own, and the tenant stays as it is
// while any of them is written.
func ExampleWant_modes() {
	ctx := context.Background()
	locks := newLocks()
	defer locks.Close(ctx)
	report := "sales"
	group, err := locks.AcquireAll(ctx, []rowlock.Want{
		{Key: "tenant/7", Options: []rowlock.Option{rowlock.Shared()}},
		{Key: "tenant/7/" + report},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer group.Release(ctx)
	_, err = locks.TryAcquireAll(ctx, []rowlock.Want{
		{Key: "tenant/7", Options: []rowlock.Option{rowlock.Shared()}},
		{Key: "tenant/7/stock"},
	})
	fmt.Println("another report:", err == nil)
	_, err = locks.TryAcquire(ctx, "tenant/7")
	fmt.Println("the tenant for itself:", err == nil)
	// Output:
	// another report: true
	// the tenant for itself: false
}

// closeAccount may be called on its own, and by a caller that has the lock.
func closeAccount(ctx context.Context, locks rowlock.Locker, account string) error {
	return rowlock.Do(ctx, locks, "account/"+account, func(ctx context.Context, lease *rowlock.Lease) error {
		fmt.Println("close", account)
		return nil
	}, rowlock.Reentrant())
}

// A function that takes the lock itself, called under the lock: with Reentrant it gets a view
// of the lease that its ctx comes from.
func ExampleReentrant() {
	ctx := context.Background()
	locks := newLocks()
	defer locks.Close(ctx)
	if err := closeAccount(ctx, locks, "anne"); err != nil {
		log.Fatal(err)
	}
	err := rowlock.Do(ctx, locks, "account/bob", func(ctx context.Context, lease *rowlock.Lease) error {
		if err := closeAccount(ctx, locks, "bob"); err != nil {
			return err
		}
		fmt.Println("still held:", lease.Err() == nil)
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// close anne
	// close bob
	// still held: true
}
