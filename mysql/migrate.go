package mysqllock

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mysql/internal/conn"
	"github.com/rowlock/rowlock/mysql/internal/schema"
)

const erTableExists = 1050

// Migrate creates the tables that are missing, of all strategies, in the database
// that the DSN names; what is there it leaves alone, and where nothing is missing it only looks. It may run in many processes
// at once and again. The user needs CREATE on the database; the rest of the Store
// needs SELECT, INSERT, UPDATE and DELETE on the tables only. Programs that run
// their schema changes with a tool of their own apply the files of package
// migrations instead.
//
// A backup may lock all definitions (LOCK INSTANCE FOR BACKUP, FLUSH TABLES WITH READ LOCK, on MariaDB BACKUP STAGE). Where a
// table is missing then, Migrate waits for the backup until ctx ends, but a minute at most; the error says so.
//
// An error that matches rowlock.ErrSchema says that a table is there but does not
// fit. After any error Migrate may be called again.
func (s *Store) Migrate(ctx context.Context) error {
	if s.closed.Load() {
		return conn.ErrClosed()
	}
	all, err := schema.Definitions(s.options.Prefix)
	if err != nil {
		return err
	}
	var making atomic.Pointer[string]
	err = conn.DetachedErr(ctx, s.db, "migrate", func(ctx context.Context) error { return s.migrate(ctx, all, &making) })
	if table := making.Load(); table != nil && ctx.Err() != nil {
		err = notMade(*table, ctx.Err())
	}
	return conn.Classify("migrate", err)
}

// migrate says in making which table it is making.
func (s *Store) migrate(ctx context.Context, all []schema.Definition, making *atomic.Pointer[string]) error {
	defined, err := s.defined(s.strategy.Layout())
	if err != nil {
		return err
	}
	return s.db.Slow(ctx, func(c *conn.Conn) error {
		found, err := schema.Read(ctx, c, all)
		if err != nil {
			return err
		}
		for _, d := range all {
			if found[d.Table].IsThere() {
				continue
			}
			making.Store(&d.Table)
			err := define(ctx, c, d)
			switch conn.Number(err) {
			case conn.ErDatabaseDenied, conn.ErTableDenied:
				return &driver.Error{Lasting: true, NotApplied: true, Err: fmt.Errorf("mysql: migrate: the user may not create tables: grant it CREATE on the database, or apply the files of package migrations as another user: %w", err)}
			}
			if err != nil {
				return err
			}
		}
		making.Store(nil)
		return schema.Check(ctx, c, s.strategy.Layout(), defined, "no migration repairs this: if the table is rowlock's, drop it when nothing uses it and run Migrate again, if it is another's, set Options.Prefix")
	})
}

// definitionWait is how long Migrate waits for whoever has the definitions locked.
const definitionWait = time.Minute

// notMade is the error of a table whose definition waits for somebody until the time is over.
func notMade(table string, err error) error {
	return fmt.Errorf("table %s is missing, and could not be made in time: a backup may have the definitions of all tables locked (LOCK INSTANCE FOR BACKUP, FLUSH TABLES WITH READ LOCK, on MariaDB BACKUP STAGE), or another session defines this one: %w", table, err)
}

// define makes a table, unless another process does so meanwhile.
func define(ctx context.Context, c *conn.Conn, d schema.Definition) error {
	waiting, cancel := context.WithTimeout(ctx, definitionWait)
	defer cancel()
	for {
		_, err := c.Exec(ctx, 0, d.Create)
		switch conn.Number(err) {
		case erTableExists:
			return nil
		case conn.ErLockWait: // after lock_wait_timeout of the session, a second
			if conn.Pause(waiting, 100*time.Millisecond) {
				continue
			}
			return notMade(d.Table, waiting.Err())
		}
		return err
	}
}
