package locktest

import (
	"context"
	"testing"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
)

// Harness tells the suite how to reach a backend and what it can do. A nil
// function means that the backend has no such thing (the memory store has no
// server to kill): its cases do not exist then, they are not skipped.
type Harness struct {
	// Open opens a Store on the lock space of this Harness, with connections of
	// its own: to the backend each call is another program. It is closed by
	// t.Cleanup. Required.
	Open func(t testing.TB) driver.Store

	// Config is handed to the open function of [Main] in a child process, which
	// opens a Store on the same lock space. Empty: the backend lives in one
	// process, and the cases with several processes do not exist.
	Config string

	// Server starts a server of its own, which the suite may pause, kill and
	// restart, and returns how to open a Store on it.
	Server func(t testing.TB) (Server, func(t testing.TB) driver.Store)

	// Block lets a foreign transaction stop acquires of key, so that they are
	// answered Pinned, until the returned function ends it. The key has been locked
	// and released before. Other cases reap meanwhile: a row that Block writes must
	// not look dead for long.
	Block func(t testing.TB, key string) (unblock func())

	// RowLocks says that a row which any statement has locked for longer than the Store waits
	// is Pinned, so that a slow statement of a busy server pins its row for that time. False: only an open
	// transaction does, and no answer of a busy server may be taken for one.
	RowLocks bool

	// Guard begins a transaction, of the kind that users have, which a lease guards that a
	// client on s was granted. commit commits it, or tells why it cannot be committed. Nil:
	// the cases of P21 do not exist.
	Guard func(t testing.TB, s driver.Store, lease *rowlock.Lease) (commit func() error, err error)

	// Connections counts, on the server, the connections of the given Store.
	Connections func(t testing.TB, s driver.Store) int

	// MaxConnections is the bound of Connections for a Store that holds and waits
	// for the given numbers of keys. Where it grows with them, the suite uses fewer
	// keys at a time. Nil: it does not grow, and is not checked.
	MaxConnections func(held, waited int) int

	// Dead writes n rows of keys that died long ago (older than any grace),
	// each with the name prefix + a number.
	Dead func(t testing.TB, prefix string, n int)

	// Floor returns the floor of a lease cycle for benchmarks: a function that makes
	// two durable commits by hand, without this library, on a connection and a row of
	// its own. [Bench] compares with it in the same run.
	Floor func(t testing.TB) func() error

	// LateLoss is how much later than the database the holder may learn of a
	// loss that the server or network caused by ending its session (the exception
	// to P2 of SelectForUpdate); 0: never later.
	LateLoss time.Duration

	// InTx runs fn in a guarded transaction of the leases on a Store that Open made.
	InTx func(ctx context.Context, s driver.Store, fn func(context.Context) error, leases ...*rowlock.Lease) error

	// Concurrency bounds the goroutines of each stress case, for a backend that
	// needs a connection for each; 0: the suite's own numbers, up to 64.
	Concurrency int
}

// Server is a database server that the suite may pause and kill. The suite calls it from the
// goroutine of the test that started it; a method that fails ends that test.
type Server interface {
	Pause()   // freeze it: sockets stay open, nothing answers
	Resume()  // undo Pause
	Kill()    // end it without warning
	Restart() // start it again with its data, on the same address
}
