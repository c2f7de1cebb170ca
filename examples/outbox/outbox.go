package main

import (
	"context"
	"database/sql"
	"errors"
)

// message is what the other system is told of an order.
type message struct {
	Number int64
	Cents  int64
	Token  int64 // of the relay's lease
}

// position is the number of the last message that is noted as sent.
func (s *shop) position(ctx context.Context) (n int64, err error) {
	err = s.db.QueryRowContext(ctx, "SELECT last FROM "+s.sent+" ORDER BY id DESC LIMIT 1").Scan(&n)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	return n, err
}

// after are the first messages after a number.
func (s *shop) after(ctx context.Context, number int64, limit int) (list []message, err error) {
	rows, err := s.db.QueryContext(ctx, "SELECT number, cents FROM "+s.messages+" WHERE number > ? ORDER BY number LIMIT ?", number, limit)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var m message
		if err := rows.Scan(&m.Number, &m.Cents); err != nil {
			return nil, err
		}
		list = append(list, m)
	}
	return list, rows.Err()
}

// note notes messages as sent. A relay that does this after another relay has gone on
// would set the position back: it belongs in a guarded transaction.
func (s *shop) note(ctx context.Context, tx *sql.Tx, first, last, token int64) error {
	_, err := tx.ExecContext(ctx, "INSERT INTO "+s.sent+" (first, last, token) VALUES (?, ?, ?)", first, last, token)
	return err
}
