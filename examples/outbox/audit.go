package main

import (
	"context"
	"fmt"
)

// books is what the shop's tables say at the end.
type books struct {
	Orders, Messages int
	Cents            int64 // of all orders
	Sent             int64 // the position
	Breaks           int   // batches that do not begin where the one before ended, or have an older token
}

func (s *shop) audit(ctx context.Context) (b books, err error) {
	if err := s.db.QueryRowContext(ctx, "SELECT COUNT(*), SUM(cents), (SELECT COUNT(*) FROM "+s.messages+") FROM "+s.orders).Scan(&b.Orders, &b.Cents, &b.Messages); err != nil {
		return b, fmt.Errorf("count the orders: %w", err)
	}
	if b.Sent, err = s.position(ctx); err != nil {
		return b, fmt.Errorf("ask for the position: %w", err)
	}
	rows, err := s.db.QueryContext(ctx, "SELECT first, last, token FROM "+s.sent+" ORDER BY id")
	if err != nil {
		return b, fmt.Errorf("list the batches: %w", err)
	}
	defer rows.Close()
	var end, newest int64
	for rows.Next() {
		var first, last, token int64
		if err := rows.Scan(&first, &last, &token); err != nil {
			return b, fmt.Errorf("list the batches: %w", err)
		}
		if first != end+1 || token < newest {
			b.Breaks++
		}
		end, newest = last, token
	}
	return b, rows.Err()
}
