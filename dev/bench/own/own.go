// Package own puts locks of yours beside those that the benchmark knows. Write a program
// of three lines around it, as bench/examples/own does:
//
//	own.Register("mine", open)
//	benchcli.Main()
//
// The lock is a side of its own in N1, N2, N3, N4 and N4b, and in a contest of your choice.
package own

import (
	"context"

	"github.com/rowlock/rowlock/dev/bench/internal/side"
)

// Locker is a lock to measure. Lock waits until it has the key; Close ends what Lock uses.
// It is safe for concurrent use.
type Locker = side.Locker

// Hold is a key that was locked. Unlock frees it.
type Hold = side.Hold

// Counter is a Locker that counts what it sends to its server, for the columns of
// statements. It may be left out.
type Counter = side.Counter

// Register adds a lock under a name, which the tables show. open is called in each
// process that measures, with the number of goroutines that will use the lock at once. It
// must be called before benchcli.Main, in every process alike.
func Register(name string, open func(ctx context.Context, callers int) (Locker, error)) {
	side.Register(name, open)
}
