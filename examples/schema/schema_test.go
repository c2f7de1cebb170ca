package schema

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/pressly/goose/v3"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/internal/testdb"
	"github.com/rowlock/rowlock/internal/testserver"
	mysqllock "github.com/rowlock/rowlock/mysql"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// pool is one for a database of the test's own.
func pool(t *testing.T, kind string) (db *sql.DB, dsn string) {
	t.Helper()
	config := testdb.MySQL(t, kind)
	config.ParseTime, config.MultiStatements = true, true
	db, err := sql.Open("mysql", config.FormatDSN())
	must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	return db, config.FormatDSN()
}

func open(t *testing.T, dsn string) (*mysqllock.Store, *rowlock.Client) {
	t.Helper()
	store, err := mysqllock.Open(dsn, mysqllock.Options{})
	must(t, err)
	locks, err := rowlock.New(store, rowlock.Options{})
	must(t, err)
	t.Cleanup(func() {
		_ = locks.Close(context.Background())
		_ = store.Close()
	})
	return store, locks
}

// TestLockTables: either tool makes tables with which the Store works, and may run again.
func TestLockTables(t *testing.T) {
	for name, migrates := range map[string]func(context.Context, *sql.DB) error{
		"goose": LockTablesByGoose, "golang-migrate": LockTablesByGolangMigrate,
	} {
		t.Run(name, func(t *testing.T) {
			db, dsn := pool(t, testserver.MySQL)
			must(t, migrates(t.Context(), db))
			must(t, migrates(t.Context(), db))
			store, _ := open(t, dsn)
			must(t, store.Check(t.Context()))
		})
	}
}

// TestMigrations: programs that migrate one schema at the same time do it one after the other: a migration that fails
// when it runs beside itself, or twice, is there once.
func TestMigrations(t *testing.T) {
	const create = "CREATE TABLE example_items (id BIGINT PRIMARY KEY);\nSELECT SLEEP(0.3);\nCREATE TABLE example_more (id BIGINT PRIMARY KEY);\n"
	files := fstest.MapFS{"sql/0001_items.up.sql": {Data: []byte(create)}}
	gooseFiles := fstest.MapFS{"0001_items.sql": {Data: []byte("-- +goose Up\n" + create)}}
	for _, kind := range []string{testserver.MySQL, testserver.MariaDB} {
		for name, migrates := range map[string]func(context.Context, rowlock.Locker, *sql.DB) error{
			"goose": func(ctx context.Context, l rowlock.Locker, db *sql.DB) error {
				return MigrateByGoose(ctx, l, db, gooseFiles)
			},
			"goose with a Locker": func(ctx context.Context, l rowlock.Locker, db *sql.DB) error {
				provider, err := goose.NewProvider(goose.DialectMySQL, db, gooseFiles, goose.WithLocker(&GooseLocker{Locks: l, Key: "schema"}))
				if err != nil {
					return err
				}
				_, err = provider.Up(ctx)
				return err
			},
			"golang-migrate": func(ctx context.Context, l rowlock.Locker, db *sql.DB) error {
				return MigrateByGolangMigrate(ctx, l, db, files, "sql")
			},
		} {
			t.Run(kind+"/"+name, func(t *testing.T) {
				db, dsn := pool(t, kind)
				store, _ := open(t, dsn)
				must(t, store.Migrate(t.Context())) // the lock tables come first
				if name == "goose with a Locker" {  // which makes goose's own table outside of the lock
					provider, err := goose.NewProvider(goose.DialectMySQL, db, gooseFiles)
					must(t, err)
					_, err = provider.HasPending(t.Context())
					must(t, err)
				}
				var wg sync.WaitGroup
				errs := make(chan error, 3)
				for range cap(errs) {
					_, locks := open(t, dsn)
					wg.Go(func() { errs <- migrates(t.Context(), locks, db) })
				}
				wg.Wait()
				for range cap(errs) {
					if err := <-errs; err != nil {
						t.Errorf("one of three programs: %v", err)
					}
				}
				var n int
				must(t, db.QueryRow("SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA=DATABASE() AND TABLE_NAME LIKE 'example%'").Scan(&n))
				if n != 2 {
					t.Errorf("%d tables, want 2", n)
				}
			})
		}
	}
}

// TestGooseLostItsLock: what goose returns says that its lock was lost while migrations ran.
func TestGooseLostItsLock(t *testing.T) {
	db, dsn := pool(t, testserver.MySQL)
	store, locks := open(t, dsn)
	must(t, store.Migrate(t.Context()))
	up := func(run func(context.Context, *sql.Tx) error) error {
		provider, err := goose.NewProvider(goose.DialectMySQL, db, nil, goose.WithLocker(&GooseLocker{Locks: locks, Key: "schema"}),
			goose.WithTableName("goose_"+strings.ToLower(rand.Text()[:8])),
			goose.WithGoMigrations(goose.NewGoMigration(1, &goose.GoFunc{RunTx: run}, nil)))
		must(t, err)
		_, err = provider.Up(t.Context())
		return err
	}
	must(t, up(func(context.Context, *sql.Tx) error { return nil }))
	err := up(func(ctx context.Context, _ *sql.Tx) error {
		_, err := locks.ForceRelease(ctx, "schema")
		return err
	})
	if !errors.Is(err, rowlock.ErrLost) {
		t.Errorf("goose says %v, want ErrLost", err)
	}
}
