package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rowlock/rowlock/examples/internal/servers"
)

// shop is the shop's database: orders, and the messages about them.
type shop struct {
	db *sql.DB

	orders   string // table of orders
	messages string // the outbox: a message a row, numbered 1, 2, …
	counter  string // one row: the last number
	sent     string // a row for each batch that was sent; the newest says how far the relay has come
}

func openShop(server servers.Server, space string) (*shop, error) {
	db, err := server.SQL(writers + 2)
	if err != nil {
		return nil, err
	}
	return &shop{db: db, orders: space + "_order", messages: space + "_message", counter: space + "_counter", sent: space + "_sent"}, nil
}

func (s *shop) makeTables(ctx context.Context) error {
	for _, statement := range []string{
		"CREATE TABLE " + s.orders + " (id BIGINT AUTO_INCREMENT PRIMARY KEY, cents BIGINT NOT NULL)",
		"CREATE TABLE " + s.messages + " (number BIGINT PRIMARY KEY, cents BIGINT NOT NULL)",
		"CREATE TABLE " + s.counter + " (number BIGINT NOT NULL)",
		"INSERT INTO " + s.counter + " VALUES (0)",
		"CREATE TABLE " + s.sent + " (id BIGINT AUTO_INCREMENT PRIMARY KEY, first BIGINT NOT NULL, last BIGINT NOT NULL, token BIGINT NOT NULL)",
	} {
		if _, err := s.db.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("open the shop: %w", err)
		}
	}
	return nil
}

// writers is how many customers order at the same time.
const writers = 4

var errChangedMind = errors.New("the customer changed his mind")

// sell takes n orders.
func (s *shop) sell(ctx context.Context, n int) error {
	var (
		all  sync.WaitGroup
		errs = make([]error, writers)
	)
	for w := range writers {
		all.Go(func() {
			for i := w; i < n && errs[w] == nil && ctx.Err() == nil; i += writers {
				if i%10 == 0 { // a transaction that fails leaves no hole in the numbers
					if err := s.order(ctx, int64(i), errChangedMind); !errors.Is(err, errChangedMind) {
						errs[w] = err
					}
				}
				errs[w] = errors.Join(errs[w], s.order(ctx, int64(100+i), nil))
				time.Sleep(5 * time.Millisecond)
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// order writes one order and the message about it: both or none.
func (s *shop) order(ctx context.Context, cents int64, regret error) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // after a commit it does nothing
	if _, err := tx.ExecContext(ctx, "INSERT INTO "+s.orders+" (cents) VALUES (?)", cents); err != nil {
		return err
	}
	// Not an AUTO_INCREMENT: that numbers inserts, so that message 5 may be committed
	// after message 6 was sent, and leaves holes. The counter's row stays locked until
	// the commit, so numbers are in the order of commits. It comes last, because all
	// customers wait for it.
	r, err := tx.ExecContext(ctx, "UPDATE "+s.counter+" SET number = LAST_INSERT_ID(number + 1)")
	if err != nil {
		return err
	}
	number, err := r.LastInsertId()
	if err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "INSERT INTO "+s.messages+" (number, cents) VALUES (?, ?)", number, cents); err != nil {
		return err
	}
	if regret != nil {
		return regret
	}
	return tx.Commit()
}
