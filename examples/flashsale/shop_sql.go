package main

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/examples/internal/servers"
	"github.com/rowlock/rowlock/examples/internal/timed"
	mysqllock "github.com/rowlock/rowlock/mysql"
)

// sqlShop is the shop in MySQL or MariaDB: a row with the stock, a row an order.
type sqlShop struct {
	db            *sql.DB
	server        servers.Server
	space         string
	stock, orders string // tables
	prices        string
}

func openSQL(server servers.Server, space string) (*sqlShop, error) {
	db, err := server.SQL(shopConnections)
	if err != nil {
		return nil, err
	}
	return &sqlShop{db: db, server: server, space: space, stock: space + "_stock", orders: space + "_orders", prices: space + "_prices"}, nil
}

func (s *sqlShop) Fill(ctx context.Context, n int) error {
	for _, statement := range []string{
		"CREATE TABLE IF NOT EXISTS " + s.stock + " (item INT PRIMARY KEY, stock INT NOT NULL)",
		"CREATE TABLE IF NOT EXISTS " + s.orders + " (id BIGINT AUTO_INCREMENT PRIMARY KEY, buyer INT NOT NULL, item INT NOT NULL)",
		"CREATE TABLE IF NOT EXISTS " + s.prices + " (name VARCHAR(100) PRIMARY KEY, price INT NOT NULL)",
		"TRUNCATE TABLE " + s.orders,
		fmt.Sprintf("REPLACE INTO %s (item, stock) VALUES (1, %d)", s.stock, n),
	} {
		if _, err := s.db.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("fill the shop: %w", err)
		}
	}
	return nil
}

func (s *sqlShop) Buy(ctx context.Context, buyer int, think time.Duration) (bool, error) {
	var stock int
	if err := s.db.QueryRowContext(ctx, "SELECT stock FROM "+s.stock+" WHERE item = 1").Scan(&stock); err != nil {
		return false, err
	}
	if stock <= 0 {
		return false, nil
	}
	if err := timed.Sleep(ctx, think); err != nil {
		return false, err
	}
	if _, err := s.db.ExecContext(ctx, "UPDATE "+s.stock+" SET stock = ? WHERE item = 1", stock-1); err != nil {
		return false, err
	}
	_, err := s.db.ExecContext(ctx, "INSERT INTO "+s.orders+" (buyer, item) VALUES (?, ?)", buyer, stock)
	return err == nil, err
}

func (s *sqlShop) Count(ctx context.Context) (b books, err error) {
	err = s.db.QueryRowContext(ctx, "SELECT COUNT(*), COUNT(DISTINCT item), (SELECT stock FROM "+s.stock+" WHERE item = 1) FROM "+s.orders).
		Scan(&b.Orders, &b.Items, &b.Stock)
	if err != nil {
		err = fmt.Errorf("count the orders: %w", err)
	}
	return b, err
}

func (s *sqlShop) SetPrice(ctx context.Context, key string, price int) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := s.putPrice(ctx, tx, key, price); err != nil {
		return err
	}
	return tx.Commit()
}

func (s *sqlShop) SetPriceGuarded(ctx context.Context, locks lockStore, lease *rowlock.Lease, key string, price int) error {
	return locks.(*mysqllock.Store).InTx(ctx, lease, func(ctx context.Context, tx *sql.Tx) error {
		return s.putPrice(ctx, tx, key, price)
	})
}

func (s *sqlShop) putPrice(ctx context.Context, tx *sql.Tx, key string, price int) error {
	_, err := tx.ExecContext(ctx, "REPLACE INTO "+s.prices+" (name, price) VALUES (?, ?)", key, price)
	return err
}

func (s *sqlShop) Price(ctx context.Context, key string) (price int, err error) {
	err = s.db.QueryRowContext(ctx, "SELECT price FROM "+s.prices+" WHERE name = ?", key).Scan(&price)
	return price, err
}

func (s *sqlShop) Locks(strategy string) (lockStore, error) {
	how, err := mysqllock.ParseStrategy(strategy)
	if err != nil {
		return nil, err
	}
	return s.server.OpenStore(mysqllock.Options{Strategy: how, Prefix: s.space})
}

func (s *sqlShop) Close() error {
	if err := s.db.Close(); err != nil {
		return fmt.Errorf("close the shop: %w", err)
	}
	return nil
}
