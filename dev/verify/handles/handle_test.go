package handles

import (
	"context"
	"database/sql"
	"testing"

	"entgo.io/ent/dialect"
	entsql "entgo.io/ent/dialect/sql"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/mysqldialect"
	gormmysql "gorm.io/driver/mysql"
	"gorm.io/gorm"

	mysqllock "github.com/rowlock/rowlock/mysql"
)

// transaction is one that a library began.
type transaction struct {
	tx               mysqllock.Tx                           // what is given to rowlock
	note             func(ctx context.Context, n int) error // writes in it, in the library's own way
	commit, rollback func() error
}

// library begins transactions in its way on a pool.
type library struct {
	name  string
	begin func(t *testing.T, db *sql.DB) transaction
	pool  func(t *testing.T, db *sql.DB) mysqllock.Tx // its handle outside a transaction, which is none
}

var libraries = []library{
	{
		name: "database/sql",
		begin: func(t *testing.T, db *sql.DB) transaction {
			tx, err := db.BeginTx(t.Context(), nil)
			must(t, err)
			note := func(ctx context.Context, n int) error {
				_, err := tx.ExecContext(ctx, "INSERT INTO notes VALUES (?)", n)
				return err
			}
			return transaction{tx, note, tx.Commit, tx.Rollback}
		},
		pool: func(_ *testing.T, db *sql.DB) mysqllock.Tx { return db },
	},
	{
		name: "sqlc",
		begin: func(t *testing.T, db *sql.DB) transaction {
			tx, err := db.BeginTx(t.Context(), nil)
			must(t, err)
			q := New(db).WithTx(tx)
			return transaction{q.db, q.InsertNote, tx.Commit, tx.Rollback}
		},
		pool: func(_ *testing.T, db *sql.DB) mysqllock.Tx { return New(db).db },
	},
	{name: "gorm", begin: beginGorm(gorm.Config{}), pool: poolGorm(gorm.Config{})},
	{name: "gorm, prepared", begin: beginGorm(gorm.Config{PrepareStmt: true}), pool: poolGorm(gorm.Config{PrepareStmt: true})},
	{
		name: "bun",
		begin: func(t *testing.T, db *sql.DB) transaction {
			tx, err := bun.NewDB(db, mysqldialect.New()).BeginTx(t.Context(), nil)
			must(t, err)
			note := func(ctx context.Context, n int) error {
				_, err := tx.NewInsert().Model(&Note{N: n}).ModelTableExpr("notes").Exec(ctx)
				return err
			}
			return transaction{tx, note, tx.Commit, tx.Rollback}
		},
		pool: func(_ *testing.T, db *sql.DB) mysqllock.Tx { return bun.NewDB(db, mysqldialect.New()) },
	},
	{
		// The driver under ent's generated code, whose own Tx has the two methods with the
		// feature sql/execquery and hands them on to this.
		name: "ent",
		begin: func(t *testing.T, db *sql.DB) transaction {
			begun, err := entsql.OpenDB(dialect.MySQL, db).Tx(t.Context())
			must(t, err)
			tx := begun.(*entsql.Tx)
			note := func(ctx context.Context, n int) error {
				query, args := entsql.Dialect(dialect.MySQL).Insert("notes").Columns("n").Values(n).Query()
				var res sql.Result
				return tx.Exec(ctx, query, args, &res)
			}
			return transaction{tx, note, tx.Commit, tx.Rollback}
		},
		pool: func(_ *testing.T, db *sql.DB) mysqllock.Tx { return entsql.OpenDB(dialect.MySQL, db) },
	},
}

// Note is a row of the table notes, for gorm and bun.
type Note struct{ N int }

func openGorm(t *testing.T, db *sql.DB, config gorm.Config) *gorm.DB {
	t.Helper()
	g, err := gorm.Open(gormmysql.New(gormmysql.Config{Conn: db}), &config)
	must(t, err)
	return g
}

func beginGorm(config gorm.Config) func(*testing.T, *sql.DB) transaction {
	return func(t *testing.T, db *sql.DB) transaction {
		tx := openGorm(t, db, config).Begin()
		must(t, tx.Error)
		note := func(ctx context.Context, n int) error {
			return tx.WithContext(ctx).Table("notes").Create(&Note{N: n}).Error
		}
		return transaction{
			tx.Statement.ConnPool, note,
			func() error { return tx.Commit().Error },
			func() error { return tx.Rollback().Error },
		}
	}
}

func poolGorm(config gorm.Config) func(*testing.T, *sql.DB) mysqllock.Tx {
	return func(t *testing.T, db *sql.DB) mysqllock.Tx { return openGorm(t, db, config).Statement.ConnPool }
}
