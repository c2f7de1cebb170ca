package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/examples/internal/fleet"
	"github.com/rowlock/rowlock/examples/internal/timed"
	mysqllock "github.com/rowlock/rowlock/mysql"
)

// task is what a program is told.
type task struct {
	Plan     plan
	Space    string
	OneByOne bool
}

// result is what came of its transfers.
type result struct {
	Done, GivenUp int
}

// bank is what a program works with.
type bank struct {
	plan
	table string
	locks *rowlock.Client
	store *mysqllock.Store
}

// playTellers is one program: its goroutines make transfers, and it says what came of them.
func playTellers(ctx context.Context, parent *fleet.Parent) (err error) {
	var t task
	if err := parent.Receive(&t); err != nil {
		return err
	}
	store, err := t.Plan.Backend.OpenStore(mysqllock.Options{Prefix: t.Space, Strategy: t.Plan.Strategy})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	locks, err := rowlock.New(store, rowlock.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, timed.Within(5*time.Second, locks.Close)) }()

	b := &bank{plan: t.Plan, table: accountsOf(t.Space), locks: locks, store: store}
	transfer, patience := b.transfer, time.Minute
	if t.OneByOne {
		transfer, patience = b.transferOneByOne, b.Patience
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	var r result
	var failed error
	for range b.Tellers {
		wg.Go(func() {
			for range b.Transfers {
				two := rand.Perm(b.Accounts)
				within, cancel := context.WithTimeout(ctx, patience)
				err := transfer(within, two[0], two[1], 1+rand.IntN(10))
				cancel()
				mu.Lock()
				switch {
				case err == nil:
					r.Done++
				case errors.Is(err, context.DeadlineExceeded):
					r.GivenUp++
				default:
					failed = errors.Join(failed, err)
				}
				mu.Unlock()
				if err != nil {
					return // one such wait says enough
				}
			}
		})
	}
	wg.Wait()
	if failed != nil {
		return failed
	}
	return parent.Send(r)
}

func lockOf(account int) string { return fmt.Sprintf("account/%d", account) }

// transfer takes the locks of both accounts, and moves the money in a transaction that both
// leases guard: if one of them is lost it is not committed.
func (b *bank) transfer(ctx context.Context, from, to, amount int) error {
	both, err := b.locks.AcquireAll(ctx, rowlock.Keys(lockOf(from), lockOf(to)))
	if err != nil {
		return err
	}
	defer both.Release(ctx)
	leases := both.Leases()
	return b.store.InTx(ctx, leases[0], func(ctx context.Context, tx *sql.Tx) error {
		return b.move(ctx, tx, from, to, amount)
	}, leases[1:]...)
}

// transferOneByOne takes one lock, and then the other: two transfers between the same
// accounts, in opposite directions, wait for each other.
func (b *bank) transferOneByOne(ctx context.Context, from, to, amount int) error {
	first, err := b.locks.Acquire(ctx, lockOf(from))
	if err != nil {
		return err
	}
	defer first.Release(ctx)
	second, err := b.locks.Acquire(ctx, lockOf(to))
	if err != nil {
		return err
	}
	defer second.Release(ctx)
	return b.store.InTx(ctx, first, func(ctx context.Context, tx *sql.Tx) error {
		return b.move(ctx, tx, from, to, amount)
	}, second)
}

// move reads both balances and writes them back, which without a lock would lose what
// another transfer writes in between.
func (b *bank) move(ctx context.Context, tx *sql.Tx, from, to, amount int) error {
	for account, change := range map[int]int{from: -amount, to: amount} {
		var balance int
		if err := tx.QueryRowContext(ctx, "SELECT balance FROM "+b.table+" WHERE id=?", account).Scan(&balance); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, "UPDATE "+b.table+" SET balance=? WHERE id=?", balance+change, account); err != nil {
			return err
		}
	}
	return nil
}
