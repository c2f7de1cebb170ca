package main

import (
	"context"
	"errors"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/examples/internal/servers"
	"github.com/rowlock/rowlock/examples/internal/timed"
	mongolock "github.com/rowlock/rowlock/mongo"
	mysqllock "github.com/rowlock/rowlock/mysql"
)

// store is what both backends have.
type store interface {
	driver.Store
	Migrate(context.Context) error
}

// openStore opens the lock store of this run: tables that begin with space, or
// collections in the database space.
func openStore(server servers.Server, space string) (store, func() error, error) {
	if server == servers.MongoDB {
		client, err := server.Mongo(10)
		if err != nil {
			return nil, nil, err
		}
		disconnect := func() error { return timed.Within(2*time.Second, client.Disconnect) }
		s, err := mongolock.New(client.Database(space).Collection("locks"), mongolock.Options{})
		if err != nil {
			return nil, nil, errors.Join(err, disconnect())
		}
		return s, func() error { return errors.Join(s.Close(), disconnect()) }, nil
	}
	s, err := server.OpenStore(mysqllock.Options{Prefix: space})
	if err != nil {
		return nil, nil, err
	}
	return s, s.Close, nil
}

// makeTables is done once, as a deployment would.
func makeTables(ctx context.Context, server servers.Server, space string) error {
	s, closeStore, err := openStore(server, space)
	if err != nil {
		return err
	}
	return errors.Join(s.Migrate(ctx), closeStore())
}
