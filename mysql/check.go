package mysqllock

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mysql/internal/conn"
	"github.com/rowlock/rowlock/mysql/internal/row"
	"github.com/rowlock/rowlock/mysql/internal/schema"
)

// Check reports whether the Store can work: the server answers, is MySQL 8.0 or
// MariaDB 10.6 or newer and not read-only, and the tables are there, in InnoDB, with the
// columns, types and indexes of this version; a wider type and more columns do no harm, if they
// need no value. The first use does it once by
// itself, but takes a server that is read-only for one that will not be for long, as
// in a failover; call it at the start of a program to fail early. SelectForUpdate is refused where several servers take
// writes, see Options.SingleWriter; what else a cluster keeps or forgets is for [Store.Cluster].
//
// Errors that match rowlock.ErrSchema name the table, and say to run Migrate, or which statement mends it;
// rowlock.ErrNotSupported: a server or table that cannot be used as it is; others
// come from the connection, or name a privilege that the user lacks: SELECT, INSERT,
// UPDATE and DELETE on the tables are needed.
func (s *Store) Check(ctx context.Context) error {
	if s.closed.Load() {
		return conn.ErrClosed()
	}
	err := conn.DetachedErr(ctx, s.db, "check", s.check)
	if err == nil {
		err = conn.DetachedErr(ctx, s.db, "check", func(ctx context.Context) error {
			return s.db.Read(ctx, func(c *conn.Conn) error { return conn.NotSent("check", s.checkPrivileges(ctx, c)) })
		})
	}
	if r := (conn.ReadOnly{}); errors.As(err, &r) {
		err = conn.NotSent("check", fmt.Errorf("%w: %w", driver.ErrNotSupported, r))
	}
	return err
}

// check runs in a context of the Store's.
func (s *Store) check(ctx context.Context) error {
	defined, err := s.defined(s.strategy.Layout())
	if err != nil {
		return conn.NotSent("check", err)
	}
	// Side by side: at a distance each trip counts. What the server is goes first.
	tables := make(chan error, 1)
	wanted, enough := context.WithCancel(ctx)
	defer enough()
	go func() {
		tables <- conn.WhileLocked(wanted, func() error {
			return s.db.Slow(ctx, func(c *conn.Conn) error {
				return conn.NotSent("check", schema.Check(ctx, c, s.strategy.Layout(), defined, "run Migrate"))
			})
		})
	}()
	err = s.db.Read(ctx, func(c *conn.Conn) error {
		err := checkServer(ctx, c)
		if err == nil {
			err = s.checkLog(ctx, c)
		}
		if err == nil {
			err = s.checkWriters(ctx, c)
		}
		c.Broken = c.Broken || conn.IsElsewhere(err)
		return conn.NotSent("check", err)
	})
	if err != nil {
		enough() // a locked table is not waited for
	}
	err = cmp.Or(err, <-tables)
	if err == nil {
		s.checked.Store(true)
	}
	return err
}

// ready is Check at the first use, one for all who come meanwhile. A server that is read-only may be about to become
// the primary, or the address to lead to the one that is: a caller that waits for a lock goes on.
func (s *Store) ready(ctx context.Context) error {
	if s.closed.Load() {
		return conn.ErrClosed()
	}
	if s.checked.Load() {
		return nil
	}
	return conn.NotSent("check", s.firstUse.Do(ctx, "check", func(ctx context.Context) error {
		// Side by side with the check, or the first use of a distant server would take a
		// large part of the TTL. The first renewal should not have to wait either.
		if !s.options.FewConnections {
			s.db.Acquires.Fill(0)
			s.db.Renewals.Fill(0)
		}
		return s.check(ctx)
	}))
}

// checkServer looks at the version and at what makes a server read-only.
func checkServer(ctx context.Context, c *conn.Conn) error {
	var version string
	variables := []string{"read_only", "innodb_read_only", "super_read_only"}
	values := make([]string, len(variables))
	_, err := conn.Query(ctx, c, 0, "SELECT VERSION(),@@GLOBAL.read_only,@@GLOBAL.innodb_read_only,COALESCE(/*!80000 @@GLOBAL.super_read_only, */ 0)",
		func(rows *sql.Rows) (bool, error) {
			return true, rows.Scan(&version, &values[0], &values[1], &values[2])
		})
	if err != nil {
		return err
	}
	if err := schema.Supported(version); err != nil {
		return err
	}
	for i, v := range variables {
		if conn.IsOn(values[i]) {
			return conn.ReadOnly{Variable: v, Value: values[i]}
		}
	}
	return nil
}

// defined are the definitions of the layout's tables, and of those of LockTx and MarkRun.
func (s *Store) defined(layout []row.Layout) ([]schema.Definition, error) {
	all, err := schema.Definitions(s.options.Prefix)
	return slices.DeleteFunc(all, func(d schema.Definition) bool {
		return d.Table != s.names.tx && d.Table != s.names.run && !slices.ContainsFunc(layout, func(t row.Layout) bool { return t.Table == d.Table })
	}), err
}

// checkPrivileges has the server check them as it would for the statements, which
// EXPLAIN does not run.
func (s *Store) checkPrivileges(ctx context.Context, c *conn.Conn) error {
	for _, t := range s.strategy.Layout() {
		for _, needs := range schema.Privileges(t.Table, t.Columns) {
			if _, err := conn.Query(ctx, c, 0, "EXPLAIN "+needs.Statement, func(*sql.Rows) (bool, error) { return true, nil }); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkLog says whether the strategy can work with the server's binary log.
func (s *Store) checkLog(ctx context.Context, c *conn.Conn) error {
	if s.options.Strategy != SelectForUpdate {
		return nil
	}
	if statements, err := s.db.LogsStatements(ctx, c); err != nil || !statements {
		return err
	}
	return fmt.Errorf("%w: the server logs statements (binlog_format is STATEMENT), which strategy for-update cannot work with: set binlog_format to ROW, or use VersionColumn", driver.ErrNotSupported)
}
