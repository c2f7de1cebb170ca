package testenv

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/go-sql-driver/mysql"
)

// versionOf asks a ready server for its version.
func versionOf(ctx context.Context, kind Kind, dsn string) (string, error) {
	if kind.isMongo() {
		return mongoVersion(ctx, dsn)
	}
	db, err := openQuiet(dsn)
	if err != nil {
		return "", err
	}
	defer db.Close()
	var v string
	err = db.QueryRowContext(ctx, "SELECT VERSION()").Scan(&v)
	return v, err
}

// openQuiet opens a pool that keeps the driver's complaints about a server that is not there yet to itself.
func openQuiet(dsn string) (*sql.DB, error) {
	cfg, err := mysql.ParseDSN(dsn)
	if err != nil {
		return nil, err
	}
	cfg.Logger = &mysql.NopLogger{}
	if cfg.Timeout == 0 {
		cfg.Timeout = time.Second
	}
	c, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(c), nil
}

// dialUntil waits until something listens on addr. The database drivers retry on a beat of their own, which is slower.
// gone tells that waiting is vain.
func dialUntil(ctx context.Context, addr string, gone func() error) error {
	for {
		c, err := net.DialTimeout("tcp", addr, 200*time.Millisecond)
		if err == nil {
			return c.Close()
		}
		if err := pollPause(ctx, gone); err != nil {
			return fmt.Errorf("%s does not listen: %w", addr, err)
		}
	}
}

// pollPause waits a moment; its error ends the polling.
func pollPause(ctx context.Context, gone func() error) error {
	if err := gone(); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(10 * time.Millisecond):
		return nil
	}
}

// sqlReady waits until the server executes a statement.
func sqlReady(ctx context.Context, n node, dsn string) error {
	if err := dialUntil(ctx, n.addr(), n.gone); err != nil {
		return err
	}
	db, err := openQuiet(dsn)
	if err != nil {
		return err
	}
	defer db.Close()
	var last error // what the server said; our own deadline says nothing
	for {
		// One try of bounded length: a port that is forwarded before the server behind it listens accepts and hangs.
		try, cancel := context.WithTimeout(ctx, 2*time.Second)
		err := db.PingContext(try)
		cancel()
		if err == nil {
			return nil
		}
		if last == nil || !errors.Is(err, context.DeadlineExceeded) {
			last = err
		}
		if stop := pollPause(ctx, n.gone); stop != nil {
			return fmt.Errorf("%s does not answer: %w (last: %w)", n.addr(), stop, last)
		}
	}
}
