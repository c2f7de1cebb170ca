// Package orm guards transactions of sqlx and gorm: see docs/guides/guards.md. The test runs it on real servers.
package orm

import (
	"context"

	"github.com/jmoiron/sqlx"
	"gorm.io/gorm"

	"github.com/rowlock/rowlock"
	mysqllock "github.com/rowlock/rowlock/mysql"
)

// Order is a row of the program's own table.
type Order struct {
	ID   int64 `db:"id"`
	Item string
	N    int
}

// TableName is gorm's way to name the table.
func (Order) TableName() string { return "example_orders" }

// OrderBySqlx writes an order in a transaction of sqlx, under the guard.
func OrderBySqlx(ctx context.Context, db *sqlx.DB, store *mysqllock.Store, lease *rowlock.Lease, o Order) error {
	tx, err := db.BeginTxx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := store.Guard(ctx, tx, lease); err != nil { // first
		return err
	}
	if _, err := tx.NamedExecContext(ctx, "INSERT INTO example_orders (item, n) VALUES (:item, :n)", o); err != nil {
		return err
	}
	return tx.Commit()
}

// OrderByGorm writes an order in a transaction of gorm, under the guard.
func OrderByGorm(ctx context.Context, db *gorm.DB, store *mysqllock.Store, lease *rowlock.Lease, o Order) error {
	return db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		if err := store.Guard(ctx, tx.Statement.ConnPool, lease); err != nil { // first
			return err
		}
		return tx.Create(&o).Error
	})
}
