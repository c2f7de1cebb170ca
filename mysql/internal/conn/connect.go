package conn

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"
)

// OpenWait is how long a step waits for a connection of a caller's pool that is
// used up. It is the caller's transactions that use it up, and they may be waiting
// for this step: a guard that gives up lets one of them end.
const OpenWait = time.Second

// ErrPoolBusy: a program's pool is used up.
var ErrPoolBusy = errors.New("no connection of the pool was free")

// take takes a connection out of the pool. Where that is used up it waits, until then
// at the longest (zero: until ctx ends), and says so.
func (d *DB) take(ctx context.Context, by time.Time) (*sql.Conn, error) {
	busy := d.usedUp()
	if busy == nil && d.own { // which bounds itself
		return d.SQL.Conn(ctx)
	}
	if busy == nil {
		return within(ctx, d.SQL.Conn)
	}
	waiting := ctx
	if !by.IsZero() {
		var cancel context.CancelFunc
		waiting, cancel = context.WithDeadline(ctx, by)
		defer cancel()
	}
	sc, err := d.SQL.Conn(waiting)
	if err == nil || waiting.Err() == nil {
		return sc, err
	}
	if ctx.Err() != nil {
		busy = fmt.Errorf("%w: %w", busy, ctx.Err())
	}
	return nil, busy
}

// Plain takes a connection out of the pool as it is, for Doctor. One that is used up is waited for as a step does.
func (d *DB) Plain(ctx context.Context) (*sql.Conn, error) {
	return d.take(ctx, time.Now().Add(OpenWait))
}

// Explain is an error if one of the Store's pools waits for a connection: of a program's pool
// that is used up, or of a server that does not greet. Otherwise it is nil. Nothing is sent.
func (d *DB) Explain() error {
	d.mu.Lock()
	waits := slices.ContainsFunc(d.pools, func(p *Pool) bool { return p.opening.Load() > 0 })
	d.mu.Unlock()
	if !waits {
		return nil
	}
	if busy := d.usedUp(); busy != nil || d.Connecting == nil {
		return busy
	}
	return d.Connecting()
}

// overdue is the end of a caller's context, with what kept the answer from it as far as is known.
func (d *DB) overdue(ctx context.Context) error {
	if why := d.Explain(); why != nil {
		return fmt.Errorf("%w: %w", ctx.Err(), why)
	}
	return ctx.Err()
}

// usedUp is nil if the pool has a connection to give, or may open one.
func (d *DB) usedUp() error {
	stats := d.SQL.Stats()
	if stats.MaxOpenConnections == 0 || stats.InUse < stats.MaxOpenConnections {
		return nil
	}
	return fmt.Errorf("%w (%d of %d in use): SetMaxOpenConns to more, or use Open", ErrPoolBusy, stats.InUse, stats.MaxOpenConnections)
}
