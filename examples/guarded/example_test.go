// Package guarded_test tests code that uses guarded transactions, without a database: see docs/testing.md.
package guarded_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/memory"
	mongolock "github.com/rowlock/rowlock/mongo"
	mysqllock "github.com/rowlock/rowlock/mysql"
)

// Guarded is what this program needs of a store beside its locks.
type Guarded interface {
	InTx(ctx context.Context, lease *rowlock.Lease, fn func(ctx context.Context) error, more ...*rowlock.Lease) error
	Once(ctx context.Context, lease *rowlock.Lease, run string, fn func(ctx context.Context) error, more ...*rowlock.Lease) error
}

var (
	_ Guarded = (*memory.Store)(nil)    // in tests
	_ Guarded = (*mongolock.Store)(nil) // as it is: the session is in the context
	_ Guarded = onMySQL{}
)

// onMySQL puts the transaction into the context, where the repositories find it.
type onMySQL struct{ store *mysqllock.Store }

type txKey struct{}

func withTx(fn func(context.Context) error) func(context.Context, *sql.Tx) error {
	return func(ctx context.Context, tx *sql.Tx) error { return fn(context.WithValue(ctx, txKey{}, tx)) }
}

func (m onMySQL) InTx(ctx context.Context, lease *rowlock.Lease, fn func(context.Context) error, more ...*rowlock.Lease) error {
	return m.store.InTx(ctx, lease, withTx(fn), more...)
}

func (m onMySQL) Once(ctx context.Context, lease *rowlock.Lease, run string, fn func(context.Context) error, more ...*rowlock.Lease) error {
	return m.store.Once(ctx, lease, run, withTx(fn), more...)
}

// Ledger is the program's repository.
type Ledger interface {
	Add(ctx context.Context, amount int) error
}

type sqlLedger struct{}

func (sqlLedger) Add(ctx context.Context, amount int) error {
	_, err := ctx.Value(txKey{}).(*sql.Tx).ExecContext(ctx, "INSERT INTO ledger (amount) VALUES (?)", amount)
	return err
}

// fakeLedger keeps what was committed.
type fakeLedger struct{ total int }

func (l *fakeLedger) Add(ctx context.Context, amount int) error {
	memory.OnCommit(ctx, func() { l.total += amount })
	return nil
}

// bookInterest is the code under test: it knows no database.
func bookInterest(ctx context.Context, locks rowlock.Locker, store Guarded, ledger Ledger, day string) error {
	err := rowlock.Do(ctx, locks, "interest", func(ctx context.Context, lease *rowlock.Lease) error {
		return store.Once(ctx, lease, day, func(ctx context.Context) error { return ledger.Add(ctx, 7) })
	}, rowlock.Guarded())
	if errors.Is(err, rowlock.ErrAlreadyRan) {
		return nil
	}
	return err
}

var _ Ledger = sqlLedger{}

// robbed is a ledger whose writer loses its lock in the middle.
type robbed struct {
	*fakeLedger
	store *memory.Store
}

func (l robbed) Add(ctx context.Context, amount int) error {
	l.store.Expire("interest")
	return l.fakeLedger.Add(ctx, amount)
}

// Guarded code is tested without a database: once per run, and nothing from a holder
// that has lost its lock.
func Example() {
	ctx := context.Background()
	store, ledger := memory.New(), &fakeLedger{}
	locks, err := rowlock.New(store, rowlock.Options{})
	if err != nil {
		panic(err)
	}
	defer locks.Close(ctx)

	fmt.Println(bookInterest(ctx, locks, store, ledger, "monday"), ledger.total)
	fmt.Println(bookInterest(ctx, locks, store, ledger, "monday"), ledger.total)

	err = bookInterest(ctx, locks, store, robbed{ledger, store}, "tuesday")
	fmt.Println(errors.Is(err, rowlock.ErrLost), ledger.total)
	// Output:
	// <nil> 7
	// <nil> 7
	// true 7
}
