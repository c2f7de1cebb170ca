package handles

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/rowlock/rowlock/internal/testdb"
	"github.com/rowlock/rowlock/internal/testserver"
	mysqllock "github.com/rowlock/rowlock/mysql"
)

// lab is a database of a test's own with the lock tables and a table notes(n).
type lab struct {
	db    *sql.DB
	store *mysqllock.Store
}

// each runs f for every library on both servers.
func each(t *testing.T, f func(t *testing.T, l lab, lib library)) {
	t.Helper()
	for _, kind := range []string{testserver.MySQL, testserver.MariaDB} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, kind)
			for _, lib := range libraries {
				t.Run(lib.name, func(t *testing.T) {
					_, err := l.db.Exec("DELETE FROM notes")
					must(t, err)
					f(t, l, lib)
				})
			}
		})
	}
}

func newLab(t *testing.T, kind string) lab {
	t.Helper()
	config := testdb.MySQL(t, kind)
	config.Logger = &mysql.NopLogger{}
	store, err := mysqllock.Open(config.FormatDSN(), mysqllock.Options{})
	must(t, err)
	t.Cleanup(func() { _ = store.Close() })
	must(t, store.Migrate(within(t, time.Minute)))
	db, err := sql.Open("mysql", config.FormatDSN())
	must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	l := lab{db: db, store: store}
	_, err = l.db.Exec("CREATE TABLE notes (n INT NOT NULL) ENGINE=InnoDB")
	must(t, err)
	return l
}

// notes is how many rows were committed.
func (l lab) notes(t *testing.T) (n int) {
	t.Helper()
	must(t, l.db.QueryRow("SELECT COUNT(*) FROM notes").Scan(&n))
	return n
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}
