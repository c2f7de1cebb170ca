package guarded

import (
	"context"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mysql/internal/conn"
	"github.com/rowlock/rowlock/mysql/internal/row"
	"github.com/rowlock/rowlock/mysql/internal/share"
)

// Config is what a guard needs of a Store.
type Config struct {
	Store    driver.Store // whose leases are guarded
	DB       *conn.DB
	Strategy Strategy
	Runs     string                      // the table of marks
	Ready    func(context.Context) error // the check of the Store's first use
}

// Strategy is the strategy of a Store.
type Strategy interface {
	// Guards gives the lease rows whose index a guard of the hold locks; false: the
	// Store knows that the hold is over.
	Guards(driver.Hold) (l *share.Table, live bool)

	Layout() []row.Layout // the tables it uses
	Limits() driver.Limits
}

// Transactions are those under the leases of one Store. It is safe for concurrent use.
type Transactions struct {
	Connections *conn.Pool // of InTx and Once, one for each that runs

	store    driver.Store
	db       *conn.DB
	strategy Strategy
	runs     string
	ready    func(context.Context) error
	onces    onces
}

// New is for the Store that c describes.
func New(c Config) *Transactions {
	return &Transactions{Connections: newConnections(c.DB), store: c.Store, db: c.DB, strategy: c.Strategy, runs: c.Runs, ready: c.Ready}
}
