package servers

import (
	"context"
	"errors"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/examples/internal/timed"
	mongolock "github.com/rowlock/rowlock/mongo"
	mysqllock "github.com/rowlock/rowlock/mysql"
)

// Store is what the lock stores of all servers have.
type Store interface {
	driver.Store
	Migrate(context.Context) error
}

// OpenLocks opens the lock store of a run, for a program that needs nothing else of it: tables
// that begin with space, or collections in the database space.
func (s Server) OpenLocks(space string) (Store, func() error, error) {
	if s == MongoDB {
		client, err := s.Mongo(10)
		if err != nil {
			return nil, nil, err
		}
		disconnect := func() error { return timed.Within(2*time.Second, client.Disconnect) }
		store, err := mongolock.New(client.Database(space).Collection("locks"), mongolock.Options{})
		if err != nil {
			return nil, nil, errors.Join(err, disconnect())
		}
		return store, func() error { return errors.Join(store.Close(), disconnect()) }, nil
	}
	store, err := s.OpenStore(mysqllock.Options{Prefix: space})
	if err != nil {
		return nil, nil, err
	}
	return store, store.Close, nil
}

// MakeLocks makes the tables or collections of OpenLocks, as a deployment would: once.
func (s Server) MakeLocks(ctx context.Context, space string) error {
	store, closeStore, err := s.OpenLocks(space)
	if err != nil {
		return err
	}
	return errors.Join(store.Migrate(ctx), closeStore())
}
