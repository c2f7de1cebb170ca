package main

import (
	"context"
	"fmt"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/examples/internal/servers"
)

// place says where a sale happens and what guards it. It is sent to every process.
type place struct {
	Server   servers.Server
	Strategy string // one of the names below
	Space    string // begins the names of all tables of this run; the MongoDB database
}

// The strategies by their names in flags; unlocked is the sale that goes wrong.
const (
	unlocked      = "none"
	unique        = "unique"
	version       = "version"
	forUpdate     = "for-update"
	findAndModify = "findAndModify"
)

// String is what the tables call it.
func (p place) String() string {
	if p.Strategy == unlocked {
		return p.Server.Name() + " without a lock"
	}
	return p.Server.Name() + " " + p.Strategy
}

// itemKey is what the buyers lock: all want the same item.
const itemKey = "item:1"

// shop is the shop's own data and the locks beside it. Its way to sell is naive on
// purpose: it reads the stock, decides, and writes one less, in statements that no
// transaction holds together. That is right for one buyer at a time.
type shop interface {
	// Fill begins a sale: n items in stock, no orders.
	Fill(ctx context.Context, n int) error

	// Buy is false when the stock is 0. think is what a buyer does between looking
	// and ordering.
	Buy(ctx context.Context, buyer int, think time.Duration) (bool, error)

	// Count counts what was sold.
	Count(ctx context.Context) (books, error)

	// SetPrice sets a price by its key, in a transaction that knows nothing of locks.
	SetPrice(ctx context.Context, key string, price int) error

	// SetPriceGuarded is SetPrice in a transaction of the lock store, which does not commit if
	// the lease is lost.
	SetPriceGuarded(ctx context.Context, locks lockStore, lease *rowlock.Lease, key string, price int) error

	Price(ctx context.Context, key string) (int, error)

	// Locks opens the lock store of a strategy.
	Locks(strategy string) (lockStore, error)

	Close() error
}

// books is what the shop's data says after a sale.
type books struct {
	Orders int // how often something was sold
	Items  int // how many different items were sold
	Stock  int // what the shop thinks is left
}

// lockStore is what mysqllock's and mongolock's stores have in common.
type lockStore interface {
	driver.Store
	Migrate(context.Context) error
	Close() error
}

// shopConnections is the size of the shop's pool in each process.
const shopConnections = 16

func (p place) open() (shop, error) {
	if p.Server == servers.MongoDB {
		return openMongo(p.Server, p.Space)
	}
	return openSQL(p.Server, p.Space)
}

// prepare opens the shop and makes its lock tables.
func (p place) prepare(ctx context.Context) (shop, error) {
	s, err := p.open()
	if err != nil || p.Strategy == unlocked {
		return s, err
	}
	locks, err := s.Locks(p.Strategy)
	if err == nil {
		if err = locks.Migrate(ctx); err != nil {
			err = fmt.Errorf("make the lock tables: %w", err)
		}
		_ = locks.Close()
	}
	if err != nil {
		_ = s.Close()
		return nil, err
	}
	return s, nil
}
