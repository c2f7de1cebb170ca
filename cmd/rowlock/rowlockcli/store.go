package rowlockcli

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
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
	hosts string // of MongoDB, whose collections do not know them
	space string // names the lock space
	close func()
}

// open gives the store of the locks. It does no I/O.
func (a *app) open(ctx context.Context) (*opened, error) { return a.openWith(ctx, false) }

// openFew is open for one of many programs with a lease each: it has as few connections as can be.
func (a *app) openFew(ctx context.Context) (*opened, error) { return a.openWith(ctx, true) }

func (a *app) openWith(ctx context.Context, few bool) (*opened, error) {
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
	if s.address.kind == "mysql" {
		return a.openMySQL(s, s.strategy, few)
	}
	o := &opened{where: s.address.String(), hosts: s.address.hosts}
	client, err := mongo.Connect(clientOptions(s.address, few))
	var dns *net.DNSError
	switch {
	case errors.As(err, &dns): // of mongodb+srv
		return nil, fmt.Errorf("%s: %w", o.where, err)
	case err != nil:
		return nil, invalid("the database's URL: %w", err)
	}
	disconnect := func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = client.Disconnect(ctx) // the process ends
	}
	store, err := mongolock.New(client.Database(s.address.name).Collection(s.collection), mongolock.Options{FewConnections: few})
	if err != nil {
		disconnect()
		return nil, err
	}
	o.Store, o.space = store, s.address.space()+" "+s.collection
	o.close = func() { _ = store.Close(); disconnect() }
	return o, nil
}

func (a *app) openMySQL(s settings, strategy mysqllock.Strategy, few bool) (*opened, error) {
	config, err := s.tls.use(s.address.config)
	if err != nil {
		return nil, err
	}
	with := mysqllock.Options{Strategy: strategy, Prefix: s.prefix, FewConnections: few}
	if !few {
		with.Connections = 4 // one person looks
	}
	store, err := mysqllock.OpenConfig(config, with)
	if err != nil {
		return nil, err
	}
	return &opened{
		Store: store,
		where: s.address.String(),
		space: s.address.space() + " " + strategy.String() + " " + s.prefix,
		close: func() { _ = store.Close() },
	}, nil
}

// once does what Once of the stores does: fn runs in a transaction that marks the run.
func (o *opened) once(ctx context.Context, h *hold, run string, fn func() error) error {
	lease, more := h.leases[0], h.leases[1:]
	switch s := o.Store.(type) {
	case *mysqllock.Store:
		return s.Once(ctx, lease, run, func(context.Context, *sql.Tx) error { return fn() }, more...)
	case *mongolock.Store:
		return s.Once(ctx, lease, run, func(context.Context) error { return fn() }, more...)
	case interface {
		Once(ctx context.Context, lease *rowlock.Lease, run string, fn func(context.Context) error, more ...*rowlock.Lease) error
	}:
		return s.Once(ctx, lease, run, func(context.Context) error { return fn() }, more...)
	}
	return fmt.Errorf("%w: this store marks no runs", driver.ErrNotSupported)
}

// fewConnections is the pool of a MongoDB client with a lease.
const fewConnections = 3

// clientOptions are those of a client of MongoDB. The URI may say otherwise, but for the pool of one with few connections.
// Why not the driver's 10 s: docs/guides/cluster-kinds.md, MongoDB.
func clientOptions(a address, few bool) *options.ClientOptions {
	o := options.Client().SetHeartbeatInterval(time.Second).ApplyURI(a.uri()).SetAppName("rowlock")
	if o.Auth != nil && a.user != "" {
		o.Auth.Username, o.Auth.Password = a.user, a.password
	}
	if few {
		o.SetMinPoolSize(0).SetMaxPoolSize(fewConnections)
	}
	return o
}
