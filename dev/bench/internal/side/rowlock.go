package side

import (
	"context"
	"errors"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
	mongolock "github.com/rowlock/rowlock/mongo"
	mysqllock "github.com/rowlock/rowlock/mysql"
)

// Rowlock is a client of the library with its store.
type Rowlock struct {
	Client *rowlock.Client
	Store  driver.Store
	opts   []rowlock.Option
	close  func() error
}

// Migrate creates the tables or collections that s names.
func Migrate(ctx context.Context, s Spec) error {
	r, err := OpenRowlock(s)
	if err != nil {
		return err
	}
	return errors.Join(r.Store.(interface{ Migrate(context.Context) error }).Migrate(ctx), r.Close())
}

// OpenRowlock opens a strategy of the library. It does no I/O.
func OpenRowlock(s Spec) (*Rowlock, error) {
	r := &Rowlock{}
	var closeStore func() error
	if kind, fairly := strings.CutSuffix(s.Kind, fair); fairly {
		s.Kind, s.Fair = kind, true
	}
	if s.Kind == Mongo || s.Kind == Guarded {
		client, err := connectMongo(s)
		if err != nil {
			return nil, err
		}
		store, err := mongolock.New(client.Database(s.Space).Collection(s.Prefix), mongolock.Options{})
		if err != nil {
			return nil, errors.Join(err, disconnect(client))
		}
		r.Store = store
		closeStore = func() error { return errors.Join(store.Close(), disconnect(client)) }
		if s.Kind == Guarded {
			r.opts = append(r.opts, rowlock.Guarded())
		}
	} else {
		o := mysqllock.Options{Prefix: s.Prefix}
		name, probing := strings.CutSuffix(s.Kind, probes)
		if probing {
			o.WakeupConns = -1
		}
		var err error
		o.Strategy, err = mysqllock.ParseStrategy(name)
		if err != nil {
			return nil, err
		}
		if s.Meter != nil {
			if s.Address, err = s.Meter.address(s.Address); err != nil {
				return nil, err
			}
		}
		store, err := mysqllock.Open(s.Address, o)
		if err != nil {
			return nil, err
		}
		r.Store, closeStore = store, store.Close
	}
	if s.Fair {
		r.opts = append(r.opts, rowlock.Fair())
	}
	options := rowlock.Options{TTL: s.TTL, ReapInterval: -1}
	if s.NoHand {
		options.Handoff = -1
	}
	client, err := rowlock.New(r.Store, options)
	if err != nil {
		return nil, errors.Join(err, closeStore())
	}
	r.Client = client
	r.close = func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		return errors.Join(client.Close(ctx), closeStore())
	}
	return r, nil
}

func openRowlockSide(_ context.Context, s Spec) (Locker, error) {
	r, err := OpenRowlock(s)
	if err != nil {
		return nil, err
	}
	return r, nil
}

// Lock implements Locker.
func (r *Rowlock) Lock(ctx context.Context, key string) (Hold, error) {
	lease, err := r.Client.Acquire(ctx, key, r.opts...)
	if err != nil {
		return nil, err
	}
	return rowlockHold{lease}, nil
}

// Statements implements Counter.
func (r *Rowlock) Statements() uint64 { return r.Client.Stats().Statements }

// Close releases all leases.
func (r *Rowlock) Close() error { return r.close() }

type rowlockHold struct{ *rowlock.Lease }

func (h rowlockHold) Unlock(ctx context.Context) error { return h.Release(ctx) }

func disconnect(c *mongo.Client) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	return c.Disconnect(ctx)
}
