package workload

import (
	"context"

	"github.com/rowlock/rowlock/dev/verify/history"
)

func (b *sqlBackend) prepare(ctx context.Context) error {
	for _, statement := range sqlTables {
		if _, err := b.db.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

func (b *sqlBackend) pulse(ctx context.Context) error {
	_, err := b.pulses.ExecContext(ctx, "INSERT INTO verify_pulse VALUES ()")
	return err
}

func (b *sqlBackend) tune(context.Context) error { return nil }

func (b *sqlBackend) registers(ctx context.Context, space string, keys []string) error {
	for _, key := range keys {
		if _, err := b.db.ExecContext(ctx, "INSERT INTO verify_register (space, name, value, fence) VALUES (?, ?, 0, 0)", space, key); err != nil {
			return err
		}
	}
	return nil
}

// ledger is in the order of commits if the guard does what it should: rows of one key
// are then written one transaction after the other.
func (b *sqlBackend) ledger(ctx context.Context, space, key string) ([]history.Event, error) {
	rows, err := b.db.QueryContext(ctx, "SELECT n, token, client FROM verify_ledger WHERE space = ? AND name = ? ORDER BY id", space, key)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []history.Event
	for rows.Next() {
		var e history.Event
		if err := rows.Scan(&e.Value, &e.Token, &e.Owner); err != nil {
			return nil, err
		}
		list = append(list, e)
	}
	return list, rows.Err()
}

func (b *sqlBackend) seen(ctx context.Context, space, key string) ([]history.Event, error) {
	rows, err := b.db.QueryContext(ctx, "SELECT n, token, client, event FROM verify_seen WHERE space = ? AND name = ? ORDER BY id", space, key)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []history.Event
	for rows.Next() {
		var e history.Event
		var event int64
		if err := rows.Scan(&e.Value, &e.Token, &e.Owner, &event); err != nil {
			return nil, err
		}
		e.Run = commitName(e.Owner, event)
		list = append(list, e)
	}
	return list, rows.Err()
}

func (b *sqlBackend) effects(ctx context.Context, space, key string) ([]history.Event, error) {
	rows, err := b.db.QueryContext(ctx, "SELECT run, client, event FROM verify_effect WHERE space = ? AND name = ? ORDER BY id", space, key)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []history.Event
	for rows.Next() {
		e := history.Event{Kind: history.Effect}
		if err := rows.Scan(&e.Run, &e.Owner, &e.Value); err != nil {
			return nil, err
		}
		list = append(list, e)
	}
	return list, rows.Err()
}

// marks are in one table for all spaces, so runs begin with the name of theirs.
func (b *sqlBackend) marks(ctx context.Context, space, key string) ([]history.Event, error) {
	rows, err := b.db.QueryContext(ctx, "SELECT run, token FROM rowlock_run WHERE name = ? AND run LIKE ?", []byte(key), space+".%")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []history.Event
	for rows.Next() {
		e := history.Event{Kind: history.Mark}
		if err := rows.Scan(&e.Run, &e.Token); err != nil {
			return nil, err
		}
		list = append(list, e)
	}
	return list, rows.Err()
}
