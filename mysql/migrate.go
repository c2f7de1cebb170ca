package mysqllock

import (
	"context"
	"fmt"
	"io/fs"
	"regexp"
	"strings"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/migrations"
	"github.com/rowlock/rowlock/mysql/internal/conn"
)

const (
	erTableExists  = 1050
	erColumnExists = 1060
	erIndexExists  = 1061
)

// Migrate creates the tables that are missing, of all strategies, in the database
// that the DSN names; what is there it leaves alone. It may run in many processes
// at once and again. The user needs CREATE on the database; the rest of the Store
// needs SELECT, INSERT, UPDATE and DELETE on the tables only. Programs that run
// their schema changes with a tool of their own apply the files of package
// migrations instead.
//
// An error that matches rowlock.ErrSchema says that a table is there but does not
// fit. After any error Migrate may be called again.
func (s *Store) Migrate(ctx context.Context) error {
	if s.closed.Load() {
		return conn.ErrClosed()
	}
	statements, err := migrationsFor(s.options.Prefix)
	if err != nil {
		return err
	}
	err = conn.DetachedErr(ctx, s.db, "migrate", func(ctx context.Context) error { return s.migrate(ctx, statements) })
	return conn.Classify("migrate", err)
}

func (s *Store) migrate(ctx context.Context, statements []string) error {
	return s.db.Slow(ctx, func(c *conn.Conn) error {
		for _, statement := range statements {
			err := define(ctx, c, statement)
			switch conn.Number(err) {
			case conn.ErDatabaseDenied, conn.ErTableDenied:
				return &driver.Error{Lasting: true, NotApplied: true, Err: fmt.Errorf("mysql: migrate: the user may not create tables: grant it CREATE on the database, or apply the files of package migrations as another user: %w", err)}
			}
			if err != nil {
				return err
			}
		}
		return checkTables(ctx, c, s.layout(), "no migration repairs this: if the table is rowlock's, drop it when nothing uses it and run Migrate again, if it is another's, set Options.Prefix")
	})
}

// define runs a statement that may be run again.
func define(ctx context.Context, c *conn.Conn, statement string) error {
	for {
		_, err := c.Exec(ctx, 0, statement)
		switch conn.Number(err) {
		case erTableExists, erColumnExists, erIndexExists:
			return nil
		case conn.ErLockWait: // another process defines it, or uses it in a long transaction
			if conn.Pause(ctx, 100*time.Millisecond) {
				continue
			}
		}
		return err
	}
}

var ownTable = regexp.MustCompile(`\b` + defaultPrefix + `_`)

// migrationsFor gives the statements of the migration files in order, with the
// tables' prefix.
func migrationsFor(prefix string) ([]string, error) {
	files, err := fs.Glob(migrations.MySQL, "mysql/*.up.sql")
	if err != nil {
		return nil, err
	}
	var statements []string
	for _, name := range files { // sorted
		b, err := migrations.MySQL.ReadFile(name)
		if err != nil {
			return nil, err
		}
		var lines []string
		for line := range strings.Lines(string(b)) {
			if !strings.HasPrefix(line, "--") {
				lines = append(lines, line)
			}
		}
		for _, statement := range strings.Split(strings.Join(lines, ""), ";\n") {
			if statement = strings.TrimSpace(statement); statement != "" {
				statements = append(statements, ownTable.ReplaceAllString(statement, prefix+"_"))
			}
		}
	}
	if len(statements) == 0 {
		return nil, fmt.Errorf("%w: no migration files", driver.ErrSchema)
	}
	return statements, nil
}
