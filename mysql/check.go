package mysqllock

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mysql/internal/conn"
	"github.com/rowlock/rowlock/mysql/internal/row"
)

// The oldest servers with everything we use: FOR UPDATE SKIP LOCKED came with
// MySQL 8.0.1 and MariaDB 10.6.0.
const (
	minMySQL   = 8_00
	minMariaDB = 10_06
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
	defined, err := s.defined(s.layout())
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
				return conn.NotSent("check", checkTables(ctx, c, s.layout(), defined, "run Migrate"))
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
	return conn.NotSent("check", s.firstUse.Do(ctx, s.db, "check", func(ctx context.Context) error {
		// Side by side with the check, or the first use of a distant server would take a
		// large part of the TTL. The first renewal should not have to wait either.
		s.db.Acquires.Fill(0)
		s.db.Renewals.Fill(0)
		return s.check(ctx)
	}))
}

var leadingVersion = regexp.MustCompile(`^(?:5\.5\.5-)?(\d{1,9})\.(\d{1,9})`)

// supported reports whether a server that names itself so is new enough. MariaDB
// puts 5.5.5- before its version where it speaks to old clients.
func supported(version string) error {
	m := leadingVersion.FindStringSubmatch(version)
	if m == nil {
		return fmt.Errorf("%w: the server calls itself %q, which is neither MySQL nor MariaDB", driver.ErrNotSupported, version)
	}
	major, _ := strconv.Atoi(m[1])
	minor, _ := strconv.Atoi(m[2])
	name, least, oldest := "MySQL", minMySQL, "8.0"
	if isMariaDB(version) {
		name, least, oldest = "MariaDB", minMariaDB, "10.6"
	}
	if major*100+minor < least {
		return fmt.Errorf("%w: the server is %s %s: %s or newer is needed", driver.ErrNotSupported, name, version, oldest)
	}
	return nil
}

func isMariaDB(version string) bool { return strings.Contains(strings.ToLower(version), "mariadb") }

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
	if err := supported(version); err != nil {
		return err
	}
	for i, v := range variables {
		switch strings.ToUpper(values[i]) {
		case "0", "OFF", "":
		default:
			return conn.ReadOnly{Variable: v, Value: values[i]}
		}
	}
	return nil
}

// checkTables looks at the tables of the layout as the statements will, and at how all of the definitions were made. The reads
// come first: they say what is missing even where information_schema shows the user nothing. Tables that are defined
// and not in the layout may be missing. What is missing comes with the advice.
func checkTables(ctx context.Context, c *conn.Conn, layout []row.Layout, defined []definition, advice string) error {
	unread := readTables(ctx, c, layout, advice)
	if unread != nil && conn.Number(unread) != conn.ErNoIndex {
		return unread
	}
	found, err := readMade(ctx, c, defined)
	if err != nil {
		return err
	}
	for _, d := range defined {
		needed := slices.ContainsFunc(layout, func(t row.Layout) bool { return t.Table == d.table })
		if !needed && found[d.table].engine == "" {
			continue
		}
		if found[d.table].isForeign(d) {
			return fmt.Errorf("%w: table %s was made by somebody else: %s", driver.ErrSchema, d.table, advice)
		}
		if err := found[d.table].check(d); err != nil {
			return err
		}
	}
	return unread
}

// defined are the definitions of the layout's tables, and of those of LockTx and MarkRun.
func (s *Store) defined(layout []row.Layout) ([]definition, error) {
	all, err := definitions(s.options.Prefix)
	return slices.DeleteFunc(all, func(d definition) bool {
		return d.table != s.names.tx && d.table != s.names.run && !slices.ContainsFunc(layout, func(t row.Layout) bool { return t.Table == d.table })
	}), err
}

// probe reads no row of the table, but all its columns.
func probe(t row.Layout) string {
	force := ""
	if t.Guard != nil {
		force = " FORCE INDEX (guard)"
	} else if t.Index != "" {
		force = " FORCE INDEX (" + t.Index + ")"
	}
	return "SELECT " + strings.Join(t.Columns, ",") + " FROM " + t.Table + force + " LIMIT 0"
}

// readTables reads all tables in one statement, and where that fails one by one, to
// say which it is.
func readTables(ctx context.Context, c *conn.Conn, tables []row.Layout, advice string) error {
	nothing := func(*sql.Rows) (bool, error) { return true, nil }
	if len(tables) > 1 {
		all := conn.NewText(400).Add("SELECT 1 FROM ")
		for i, t := range tables {
			if i > 0 {
				all.Add(",")
			}
			all.Add("(", probe(t), ") AS t").Int(int64(i))
		}
		if _, err := conn.Query(ctx, c, 0, all.String(), nothing); err == nil {
			return nil
		}
	}
	for _, t := range tables {
		_, err := conn.Query(ctx, c, 0, probe(t), nothing)
		switch conn.Number(err) {
		case conn.ErNoTable:
			return fmt.Errorf("%w: table %s is missing in this database: %s: %w", driver.ErrSchema, t.Table, advice, err)
		case conn.ErNoIndex:
			if t.Guard == nil {
				return fmt.Errorf("%w: table %s lacks the index %s, or the server does not use it: ALTER TABLE %s ADD KEY %s (name), or ALTER INDEX %s VISIBLE (on MariaDB NOT IGNORED): %w",
					driver.ErrSchema, t.Table, t.Index, t.Table, t.Index, t.Index, err)
			}
			return fmt.Errorf("%w: table %s: the server does not use the unique index guard: ALTER TABLE %s ALTER INDEX guard VISIBLE (on MariaDB NOT IGNORED): %w", driver.ErrSchema, t.Table, t.Table, err)
		case conn.ErNoColumn:
			return fmt.Errorf("%w: table %s was made by another version of rowlock, or by somebody else: %s: %w", driver.ErrSchema, t.Table, advice, err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// checkPrivileges has the server check them as it would for the statements, which
// EXPLAIN does not run.
func (s *Store) checkPrivileges(ctx context.Context, c *conn.Conn) error {
	for _, t := range s.layout() {
		for _, needs := range privileges(t.Table, t.Columns) {
			if _, err := conn.Query(ctx, c, 0, "EXPLAIN "+needs.statement, func(*sql.Rows) (bool, error) { return true, nil }); err != nil {
				return err
			}
		}
	}
	return nil
}

// privileges are those that a table's statements need, but SELECT, each with a
// statement that needs it too and changes no row.
func privileges(table string, all []string) []struct{ privilege, statement string } {
	columns := strings.Join(all, ",") // a generated column of somebody else's takes no value
	return []struct{ privilege, statement string }{
		{"INSERT", "INSERT INTO " + table + " (" + columns + ") SELECT " + columns + " FROM " + table + " WHERE 1=0"},
		{"UPDATE", "UPDATE " + table + " SET name=name WHERE 1=0"},
		{"DELETE", "DELETE FROM " + table + " WHERE 1=0"},
	}
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
