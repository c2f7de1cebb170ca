package rowlock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/memory"
)

// A caller that renews by itself: the lease ends with its TTL when the caller does not come back.
func ExampleLease_Renew() {
	ctx := context.Background()
	locks := newLocks()
	defer locks.Close(ctx)
	lease, err := locks.Acquire(ctx, "upload", rowlock.NoRenew(), rowlock.TTL(time.Minute))
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Release(ctx)
	for part := 1; part <= 3; part++ {
		if err := lease.Renew(ctx); err != nil { // a minute for the next part
			log.Fatal(err)
		}
		fmt.Println("part", part)
	}
	// Output:
	// part 1
	// part 2
	// part 3
}

// A bound for work that may hang: the lease is over then, and another gets the key.
func ExampleMaxHold() {
	ctx := context.Background()
	locks := newLocks()
	defer locks.Close(ctx)
	lease, err := locks.Acquire(ctx, "import", rowlock.TTL(20*time.Millisecond), rowlock.MaxHold(20*time.Millisecond))
	if err != nil {
		log.Fatal(err)
	}
	<-lease.Done() // work that does not come back; its context has ended
	var lost *rowlock.LostError
	fmt.Println(errors.As(lease.Err(), &lost), lost.Reason)
	// Output: true max-hold
}

// imports takes the key for as long as the import needs, with a TTL and a bound of its own.
func imports(ctx context.Context, locks rowlock.Locker, work func(context.Context, *rowlock.Lease) error) error {
	return rowlock.Do(ctx, locks, "import", work,
		rowlock.TTL(2*time.Minute),   // an outage of a minute does not stop it; after a crash the key stays locked this long
		rowlock.MaxHold(6*time.Hour), // ends work that hangs
	)
}

// The TTL of one call, and how long it may hold at most.
func ExampleTTL() {
	ctx := context.Background()
	locks := newLocks()
	defer locks.Close(ctx)
	err := imports(ctx, locks, func(ctx context.Context, lease *rowlock.Lease) error {
		fmt.Println("more than a minute is left:", time.Until(lease.Until()) > time.Minute)
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output: more than a minute is left: true
}

// stuck says who has a key, and whether that holder lives.
func stuck(ctx context.Context, locks *rowlock.Client, key string, pause time.Duration) (string, error) {
	first, err := locks.Inspect(ctx, key)
	if err != nil {
		return "", err
	}
	time.Sleep(pause) // a third of the TTL or more
	second, err := locks.Inspect(ctx, key)
	switch {
	case err != nil:
		return "", err
	case !second.Held && second.Pinned:
		return "nobody holds it; an open transaction of " + second.Owner + " must end first", nil
	case !second.Held:
		return "it is free", nil
	case second.Kept:
		return fmt.Sprintf("%s released it; its MinHold ends in %v", second.Owner, second.Left), nil
	case second.Hold == first.Hold && second.Left > first.Left-pause:
		return second.Owner + " lives, and renews it", nil
	case second.Hold != first.Hold:
		return "it changed hands meanwhile: " + second.Owner + " has it now", nil
	}
	return fmt.Sprintf("%s does not renew it; it is free in %v", second.Owner, second.Left), nil
}

// Who has the key, and is it alive?
func ExampleClient_Inspect() {
	ctx := context.Background()
	locks, err := rowlock.New(memory.New(), rowlock.Options{Owner: "web-1:4711"})
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close(ctx)
	show := func() {
		says, err := stuck(ctx, locks, "report", time.Millisecond)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(says)
	}
	show()
	lease, err := locks.Acquire(ctx, "report", rowlock.MinHold(time.Hour))
	if err != nil {
		log.Fatal(err)
	}
	info, err := locks.Inspect(ctx, "report")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(info.Held, info.Owner, info.Token == lease.Token())
	// Output:
	// it is free
	// true web-1:4711 true
}

// A key whose holder cannot be stopped is freed; the holder learns of it at its next renewal.
func ExampleClient_ForceRelease() {
	ctx := context.Background()
	locks, err := rowlock.New(memory.New(), rowlock.Options{Owner: "web-1:4711"})
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close(ctx)
	lease, err := locks.Acquire(ctx, "import/customers")
	if err != nil {
		log.Fatal(err)
	}

	before, err := locks.ForceRelease(ctx, "import/customers")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("it was held by", before.Owner)

	_ = lease.Renew(ctx) // the holder's next renewal
	var lost *rowlock.LostError
	fmt.Println(errors.As(lease.Err(), &lost), lost.Reason)
	next, err := locks.TryAcquire(ctx, "import/customers")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("the next token is larger:", next.Token() > lease.Token())
	// Output:
	// it was held by web-1:4711
	// true forced
	// the next token is larger: true
}

// every key that begins with a prefix, in pages.
func held(ctx context.Context, locks *rowlock.Client, prefix string) ([]rowlock.Info, error) {
	var all []rowlock.Info
	for after := ""; ; {
		page, err := locks.List(ctx, prefix, after, 100)
		if err != nil || len(page) == 0 {
			return all, err
		}
		for _, info := range page {
			if info.Held {
				all = append(all, info)
			}
		}
		after = page[len(page)-1].Key
	}
}

// All keys that begin so, and who has them.
func ExampleClient_List() {
	ctx := context.Background()
	locks := newLocks()
	defer locks.Close(ctx)
	for _, key := range []string{"import/customers", "import/orders", "report"} {
		if _, err := locks.Acquire(ctx, key); err != nil {
			log.Fatal(err)
		}
	}
	infos, err := held(ctx, locks, "import/")
	if err != nil {
		log.Fatal(err)
	}
	for _, info := range infos {
		fmt.Println(info.Key)
	}
	// Output:
	// import/customers
	// import/orders
}

// patiently is work that shows who has the lock, for two terminals.
func patiently(ctx context.Context, lease *rowlock.Lease) error {
	log.Print("I have it, with token ", lease.Token())
	for i := range 30 {
		if err := lease.Err(); err != nil { // before each step that others can see
			return err
		}
		log.Print("step ", i)
		select {
		case <-time.After(time.Second):
		case <-ctx.Done(): // the lock is lost, or the program ends
			return context.Cause(ctx)
		}
	}
	return nil
}

// Work in steps ends when the lock is lost.
func ExampleDo() {
	locks, err := rowlock.New(memory.New(), rowlock.Options{Logger: slog.Default()}) // tells of a database that does not answer
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close(context.Background())
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour) // ends the wait, and the work
	defer cancel()
	err = rowlock.Do(ctx, locks, "report", func(ctx context.Context, lease *rowlock.Lease) error {
		cancel() // Ctrl-C
		return patiently(ctx, lease)
	})
	fmt.Println(errors.Is(err, context.Canceled))
	// Output: true
}
