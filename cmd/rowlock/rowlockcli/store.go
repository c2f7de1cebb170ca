package rowlockcli

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
	mongolock "github.com/rowlock/rowlock/mongo"
	mysqllock "github.com/rowlock/rowlock/mysql"
)

// opened is a store with what must be closed after it.
type opened struct {
	driver.Store
	where string // the database, without the password
	space string // names the lock space
	close func()
}

// open gives the store of the locks. It does no I/O.
func (a *app) open(ctx context.Context) (*opened, error) {
	if a.config.Open != nil {
		store, done, err := a.config.Open(ctx)
		if err != nil {
			return nil, err
		}
		return &opened{Store: store, where: "the database", close: done}, nil
	}
	s, err := a.settings()
	if err != nil {
		return nil, err
	}
	o := &opened{where: s.address.String()}
	if s.address.kind == "mysql" {
		// Few connections: one process has one lease.
		store, err := mysqllock.Open(s.address.text, mysqllock.Options{Strategy: s.strategy, Prefix: s.prefix, Connections: 4})
		if err != nil {
			return nil, err
		}
		o.Store, o.space = store, s.address.space()+" "+s.strategy.String()+" "+s.prefix
		o.close = func() { _ = store.Close() }
		return o, nil
	}
	// The URI may say otherwise. Why not the driver's 10 s: docs/guides/cluster-kinds.md, MongoDB.
	client, err := mongo.Connect(options.Client().SetHeartbeatInterval(time.Second).ApplyURI(s.address.text).SetAppName("rowlock"))
	if err != nil {
		return nil, invalid("the database's URL: %w", err)
	}
	disconnect := func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = client.Disconnect(ctx) // the process ends
	}
	store, err := mongolock.New(client.Database(s.address.database()).Collection(s.collection), mongolock.Options{})
	if err != nil {
		disconnect()
		return nil, err
	}
	o.Store, o.space = store, s.address.space()+" "+s.collection
	o.close = func() { _ = store.Close(); disconnect() }
	return o, nil
}

// once does what Once of the stores does: fn runs in a transaction that marks the run.
func (o *opened) once(ctx context.Context, lease *rowlock.Lease, run string, fn func() error) error {
	switch s := o.Store.(type) {
	case *mysqllock.Store:
		return s.Once(ctx, lease, run, func(context.Context, *sql.Tx) error { return fn() })
	case *mongolock.Store:
		return s.Once(ctx, lease, run, func(context.Context) error { return fn() })
	case interface {
		Once(ctx context.Context, lease *rowlock.Lease, run string, fn func(context.Context) error, more ...*rowlock.Lease) error
	}:
		return s.Once(ctx, lease, run, func(context.Context) error { return fn() })
	}
	return fmt.Errorf("%w: this store marks no runs", driver.ErrNotSupported)
}
