// Package schema makes the lock tables with goose or golang-migrate, and lets one program at a time migrate a schema: see
// docs/guides/migrations.md. The test runs it on real servers.
package schema

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"

	"github.com/golang-migrate/migrate/v4"
	migratemysql "github.com/golang-migrate/migrate/v4/database/mysql"
	"github.com/golang-migrate/migrate/v4/source"
	"github.com/golang-migrate/migrate/v4/source/iofs"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/migrations"
)

// LockTablesByGoose makes the lock tables; they have a table of versions of their own. The DSN has parseTime=true.
func LockTablesByGoose(ctx context.Context, db *sql.DB) error {
	files, err := fs.Sub(migrations.MySQL, "mysql")
	if err != nil {
		return err
	}
	provider, err := goose.NewProvider(goose.DialectMySQL, db, files, goose.WithTableName("goose_rowlock"))
	if err != nil {
		return err
	}
	_, err = provider.Up(ctx)
	return err
}

// LockTablesByGolangMigrate makes the lock tables; they have a table of versions of their own. The DSN has multiStatements=true.
func LockTablesByGolangMigrate(ctx context.Context, db *sql.DB) error {
	files, err := iofs.New(migrations.MySQL, "mysql")
	if err != nil {
		return err
	}
	return up(ctx, files, db, &migratemysql.Config{MigrationsTable: "migrate_rowlock"})
}

// MigrateByGoose migrates the program's own schema, in one program at a time.
func MigrateByGoose(ctx context.Context, locks rowlock.Locker, db *sql.DB, files fs.FS) error {
	provider, err := goose.NewProvider(goose.DialectMySQL, db, files)
	if err != nil {
		return err
	}
	return rowlock.Do(ctx, locks, "schema", func(ctx context.Context, _ *rowlock.Lease) error {
		_, err := provider.Up(ctx) // ends if the lock is lost
		return err
	})
}

// GooseLocker is for goose.WithLocker, where a provider is made once and used in several places. Goose is not told of a
// lost lock while migrations run: what it returns at the end matches rowlock.ErrLost. And it makes its own table before it
// asks for the lock (3.26), so that of several programs on a new database one may fail with "missing zero version
// migration". MigrateByGoose has neither fault.
type GooseLocker struct {
	Locks rowlock.Locker
	Key   string
	lease *rowlock.Lease // goose calls Lock and Unlock in turns
}

var _ lock.Locker = (*GooseLocker)(nil)

// Lock waits for another program's migrations.
func (l *GooseLocker) Lock(ctx context.Context, _ *sql.DB) (err error) {
	l.lease, err = l.Locks.Acquire(ctx, l.Key)
	return err
}

// Unlock says that the lock was lost on the way.
func (l *GooseLocker) Unlock(ctx context.Context, _ *sql.DB) error {
	return l.lease.Release(ctx)
}

// MigrateByGolangMigrate migrates the program's own schema, in one program at a time. NoLock is x-no-lock=true of a URL.
func MigrateByGolangMigrate(ctx context.Context, locks rowlock.Locker, db *sql.DB, files fs.FS, folder string) error {
	return rowlock.Do(ctx, locks, "schema", func(ctx context.Context, _ *rowlock.Lease) error {
		source, err := iofs.New(files, folder)
		if err != nil {
			return err
		}
		return up(ctx, source, db, &migratemysql.Config{NoLock: true}) // instead of GET_LOCK, which proxies and clusters do not keep
	})
}

// up runs what is missing.
func up(ctx context.Context, files source.Driver, db *sql.DB, config *migratemysql.Config) error {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	target, err := migratemysql.WithConnection(ctx, conn, config)
	if err != nil {
		return errors.Join(err, conn.Close())
	}
	m, err := migrate.NewWithInstance("files", files, "mysql", target)
	if err != nil {
		return errors.Join(err, target.Close())
	}
	defer m.Close() // closes conn, not db
	if err := m.Up(); err != nil && !errors.Is(err, migrate.ErrNoChange) {
		return err
	}
	return nil
}
