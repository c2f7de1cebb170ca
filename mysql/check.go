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
// MariaDB 10.6 or newer and not read-only, and the tables are there, with the
// columns and indexes of this version, in InnoDB. The first use does it once by
// itself, but takes a server that is read-only for one that will not be for long, as
// in a failover; call it at the start of a program to fail early. SelectForUpdate is refused where several servers take
// writes, see Options.SingleWriter; what else a cluster keeps or forgets is for [Store.Cluster].
//
// Errors that match rowlock.ErrSchema name the table and say to run Migrate;
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
	// Side by side: at a distance each trip counts. What the server is goes first.
	tables := make(chan error, 1)
	wanted, enough := context.WithCancel(ctx)
	defer enough()
	go func() {
		tables <- conn.WhileLocked(wanted, func() error {
			return s.db.Slow(ctx, func(c *conn.Conn) error {
				return conn.NotSent("check", checkTables(ctx, c, s.layout(), "run Migrate"))
			})
		})
	}()
	err := s.db.Read(ctx, func(c *conn.Conn) error {
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

// checkTables looks at the tables as the statements will. The reads come first:
// they say what is missing even where information_schema shows the user nothing.
// What does not fit comes with the advice.
func checkTables(ctx context.Context, c *conn.Conn, tables []row.Layout, advice string) error {
	if err := readTables(ctx, c, tables, advice); err != nil {
		return err
	}
	made, err := readMade(ctx, c, tables)
	if err != nil {
		return err
	}
	for _, t := range tables {
		if err := made.check(t, advice); err != nil {
			return err
		}
	}
	return nil
}

// probe reads no row of the table, but all its columns.
func probe(t row.Layout) string {
	force := ""
	if t.Guard != nil {
		force = " FORCE INDEX (guard)"
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
		case conn.ErNoColumn, conn.ErNoIndex:
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
		for _, needs := range privileges(t.Table) {
			if _, err := conn.Query(ctx, c, 0, "EXPLAIN "+needs.statement, func(*sql.Rows) (bool, error) { return true, nil }); err != nil {
				return err
			}
		}
	}
	return nil
}

// privileges are those that a table's statements need, but SELECT, each with a
// statement that needs it too and changes no row.
func privileges(table string) []struct{ privilege, statement string } {
	return []struct{ privilege, statement string }{
		{"INSERT", "INSERT INTO " + table + " SELECT * FROM " + table + " WHERE 1=0"},
		{"UPDATE", "UPDATE " + table + " SET name=name WHERE 1=0"},
		{"DELETE", "DELETE FROM " + table + " WHERE 1=0"},
	}
}

// made is how tables were made, by their names.
type made map[string]*struct {
	engine string
	guard  []string // the columns of the unique index
}

// readMade asks for all tables in one statement.
func readMade(ctx context.Context, c *conn.Conn, tables []row.Layout) (made, error) {
	t := conn.NewText(800)
	for i, table := range tables {
		name := strings.Trim(table.Table, "`")
		if i > 0 {
			t.Add(" UNION ALL ")
		}
		t.Add("SELECT ").Int(int64(i)).Add(" AS t,0 AS n,ENGINE AS what FROM information_schema.TABLES WHERE TABLE_SCHEMA=DATABASE() AND TABLE_NAME=").Key(name)
		if table.Guard != nil {
			t.Add(" UNION ALL SELECT ").Int(int64(i)).Add(",SEQ_IN_INDEX,LOWER(COLUMN_NAME) FROM information_schema.STATISTICS WHERE TABLE_SCHEMA=DATABASE() AND TABLE_NAME=").
				Key(name).Add(" AND INDEX_NAME='guard' AND NON_UNIQUE=0")
		}
	}
	found := make(made)
	for _, table := range tables {
		found[table.Table] = new(struct {
			engine string
			guard  []string
		})
	}
	_, err := conn.Query(ctx, c, 0, t.Add(" ORDER BY t,n").String(), func(rows *sql.Rows) (bool, error) {
		var i, n int
		var what sql.NullString
		if err := rows.Scan(&i, &n, &what); err != nil {
			return false, err
		}
		if m := found[tables[i].Table]; n == 0 {
			m.engine = what.String
		} else {
			m.guard = append(m.guard, what.String)
		}
		return true, nil
	})
	return found, err
}

// check looks at the storage engine and the guard index.
func (m made) check(t row.Layout, advice string) error {
	is := m[t.Table]
	if !strings.EqualFold(is.engine, "InnoDB") {
		return fmt.Errorf("%w: table %s is kept by %s, which has no row locks, and no migration repairs this: ALTER TABLE %s ENGINE=InnoDB", driver.ErrNotSupported, t.Table, is.engine, t.Table)
	}
	if t.Guard != nil && !slices.Equal(is.guard, t.Guard) {
		return fmt.Errorf("%w: the unique index guard of table %s is over (%s), it must be over (%s): the table was made by another version of rowlock: %s",
			driver.ErrSchema, t.Table, strings.Join(is.guard, ","), strings.Join(t.Guard, ","), advice)
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
