// Hello shows what rowlock does, in a second and without a server. Ann and Ben are two programs that want the same lock.
// First they take turns. Then Ann freezes while she has the lock, and wakes up too late.
//
// The locks are kept in memory here. With mysqllock or mongolock in place of package memory the same calls work between
// programs on different machines.
//
//	go run ./examples/hello
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/memory"
)

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "hello:", err)
		os.Exit(1)
	}
}

// run tells the story. Its error says that something went another way.
func run(ctx context.Context, out io.Writer) error {
	store := memory.New() // a real program: mysqllock.Open("app:secret@tcp(db:3306)/app", mysqllock.Options{})
	ann, err := rowlock.New(store, rowlock.Options{Owner: "Ann"})
	if err != nil {
		return err
	}
	defer ann.Close(ctx)
	ben, err := rowlock.New(store, rowlock.Options{Owner: "Ben"})
	if err != nil {
		return err
	}
	defer ben.Close(ctx)

	if err := takeTurns(ctx, out, ann, ben); err != nil {
		return err
	}
	return wakeTooLate(ctx, out, store, ann, ben)
}

// takeTurns: Ben waits while Ann has the lock.
func takeTurns(ctx context.Context, out io.Writer, ann, ben *rowlock.Client) error {
	lease, err := ann.Acquire(ctx, "report")
	if err != nil {
		return err
	}
	fmt.Fprintln(out, `Ann has the lock "report" and works.`)

	_, err = ben.TryAcquire(ctx, "report") // asks once; Acquire and Do wait
	var held *rowlock.HeldError
	if !errors.As(err, &held) {
		return fmt.Errorf("the lock should be refused: %v", err)
	}
	fmt.Fprintf(out, "Ben asks for it and reads that %s has it. So he waits.\n", held.Owner)
	turn := make(chan error, 1)
	go func() {
		turn <- rowlock.Do(ctx, ben, "report", func(context.Context, *rowlock.Lease) error {
			fmt.Fprintln(out, "Ben has the lock and works. Then he releases it too.")
			return nil
		})
	}()
	fmt.Fprintln(out, "Ann is done and releases it.")
	return errors.Join(lease.Release(ctx), <-turn)
}

// wakeTooLate: the lock has gone to Ben when Ann wants to commit, and she does not know.
func wakeTooLate(ctx context.Context, out io.Writer, store *memory.Store, ann, ben *rowlock.Client) error {
	old, err := ann.Acquire(ctx, "report")
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "Ann takes the lock again, and her machine freezes.")
	store.Expire("report") // stands for a pause that is longer than the TTL of her lease

	lease, err := ben.Acquire(ctx, "report")
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "Her lease runs out. Ben gets the lock.")

	var report string // what is in the database
	write := func(lease *rowlock.Lease, text string) error {
		return store.InTx(ctx, lease, func(ctx context.Context) error { // a transaction that checks the lease
			memory.OnCommit(ctx, func() { report = text })
			return nil
		})
	}
	fmt.Fprintln(out, "Ben writes the report in a guarded transaction and commits.")
	if err := write(lease, "Ben's report"); err != nil {
		return err
	}
	fmt.Fprintln(out, "Ann wakes up, notices nothing, and commits her report too.")
	if err := write(old, "Ann's report"); !errors.Is(err, rowlock.ErrLost) {
		return fmt.Errorf("her commit should be refused: %v", err)
	}
	fmt.Fprintln(out, "The database refuses her commit: she has lost the lock.")
	fmt.Fprintf(out, "In the database is %s, as it should be.\n", report)
	return lease.Release(ctx)
}
