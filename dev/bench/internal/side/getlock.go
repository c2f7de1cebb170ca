package side

import (
	"context"
	"database/sql"
	"fmt"
	"sync/atomic"
)

// getLock is the server's own lock, a connection for each caller.
type getLock struct {
	db   *sql.DB
	sent atomic.Uint64
}

func openGetLock(_ context.Context, s Spec) (Locker, error) {
	db, err := OpenSQL(s.Address, s.Callers)
	if err != nil {
		return nil, err
	}
	return &getLock{db: db}, nil
}

func (g *getLock) Lock(ctx context.Context, key string) (Hold, error) {
	c, err := g.db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	var got sql.NullInt64
	g.sent.Add(1)
	if err = c.QueryRowContext(ctx, "SELECT GET_LOCK(?, 1000)", key).Scan(&got); err == nil && got.Int64 != 1 {
		err = fmt.Errorf("GET_LOCK answered %v", got)
	}
	if err != nil {
		_ = c.Close()
		return nil, err
	}
	return getLockHold{g, c, key}, nil
}

func (g *getLock) Statements() uint64 { return g.sent.Load() }
func (g *getLock) Close() error       { return g.db.Close() }

type getLockHold struct {
	g   *getLock
	c   *sql.Conn
	key string
}

func (h getLockHold) Unlock(ctx context.Context) error {
	var done sql.NullInt64
	h.g.sent.Add(1)
	err := h.c.QueryRowContext(ctx, "SELECT RELEASE_LOCK(?)", h.key).Scan(&done)
	if err == nil && done.Int64 != 1 {
		err = fmt.Errorf("RELEASE_LOCK answered %v", done)
	}
	if e := h.c.Close(); err == nil {
		err = e
	}
	return err
}
