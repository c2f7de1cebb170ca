package orm

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"
	gormmysql "gorm.io/driver/mysql"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

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

// TestGuards: each transaction commits while its lease is the newest of its key. Where another has the key it does not,
// and nothing of it is left.
func TestGuards(t *testing.T) {
	for _, kind := range []string{testserver.MySQL, testserver.MariaDB} {
		t.Run(kind, func(t *testing.T) {
			ctx := t.Context()
			config := testdb.MySQL(t, kind)
			store, err := mysqllock.Open(config.FormatDSN(), mysqllock.Options{})
			must(t, err)
			defer store.Close()
			must(t, store.Migrate(ctx))
			locks, err := rowlock.New(store, rowlock.Options{})
			must(t, err)
			defer func() { must(t, locks.Close(context.Background())) }()
			db, err := sqlx.Open("mysql", config.FormatDSN())
			must(t, err)
			defer db.Close()
			_, err = db.Exec("CREATE TABLE example_orders (id BIGINT AUTO_INCREMENT PRIMARY KEY, item VARCHAR(100), n INT) ENGINE=InnoDB")
			must(t, err)
			byGorm, err := gorm.Open(gormmysql.New(gormmysql.Config{Conn: db.DB}), &gorm.Config{Logger: logger.Discard})
			must(t, err)

			for name, order := range map[string]func(*rowlock.Lease) error{
				"sqlx": func(l *rowlock.Lease) error { return OrderBySqlx(ctx, db, store, l, Order{Item: "sqlx", N: 1}) },
				"gorm": func(l *rowlock.Lease) error { return OrderByGorm(ctx, byGorm, store, l, Order{Item: "gorm", N: 1}) },
			} {
				lease, err := locks.Acquire(ctx, name, rowlock.TTL(time.Hour))
				must(t, err)
				if err := order(lease); err != nil {
					t.Errorf("%s, with the lease: %v", name, err)
				}
				_, err = locks.ForceRelease(ctx, name) // the holder does not know it yet
				must(t, err)
				if err := order(lease); !errors.Is(err, rowlock.ErrLost) {
					t.Errorf("%s, after the lease was taken away: %v, want ErrLost", name, err)
				}
				var n int
				must(t, db.Get(&n, "SELECT COUNT(*) FROM example_orders WHERE item=?", name))
				if n != 1 {
					t.Errorf("%s: %d orders were written, want 1", name, n)
				}
			}
		})
	}
}
