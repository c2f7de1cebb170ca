package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/examples/internal/fleet"
	"github.com/rowlock/rowlock/examples/internal/timed"
)

// buyers is the task of one process.
type buyers struct {
	Place place
	First int // number of the first buyer
	Size  int
	Think time.Duration
}

// news is what a process of buyers tells its parent: that it is ready (Sold and
// Gone are 0), then now and then how many have bought and how many have gone with
// or without an item, then the outcome.
type news struct {
	Sold, Gone int
	Outcome    *outcome
}

// outcome is what the buyers of one process saw.
type outcome struct {
	Sold       int
	Waits      []time.Duration // of each buyer, from the wish to the turn
	Begin      time.Time
	LastOrder  time.Time
	Statements uint64 // of the lock store
	Errors     int
	FirstError string
}

// playBuyers is a process of buyers. They stand ready and start together when the
// parent says so.
func playBuyers(ctx context.Context, parent *fleet.Parent) (err error) {
	var c buyers
	if err := parent.Receive(&c); err != nil {
		return err
	}
	shop, err := c.Place.open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, shop.Close()) }()
	enter := func(ctx context.Context, fn func(context.Context) error) error { return fn(ctx) }
	statements := func() uint64 { return 0 }
	if c.Place.Strategy != unlocked {
		locks, err := openClient(ctx, shop, c.Place, rowlock.Options{})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, locks.close()) }()
		enter = func(ctx context.Context, fn func(context.Context) error) error {
			return rowlock.Do(ctx, locks.Client, itemKey, func(ctx context.Context, _ *rowlock.Lease) error { return fn(ctx) })
		}
		before := locks.Stats().Statements
		statements = func() uint64 { return locks.Stats().Statements - before }
	}

	if err := parent.Send(news{}); err != nil {
		return err
	}
	var signal struct{}
	if err := parent.Receive(&signal); err != nil {
		return err
	}
	out := c.buy(ctx, shop, enter, func(sold, gone int) { _ = parent.Send(news{Sold: sold, Gone: gone}) })
	out.Statements = statements()
	return parent.Send(news{Sold: out.Sold, Gone: c.Size, Outcome: &out})
}

// buy lets the buyers loose, each in a goroutine. enter waits for a buyer's turn.
func (c buyers) buy(ctx context.Context, s shop, enter func(context.Context, func(context.Context) error) error, progress func(sold, gone int)) outcome {
	out := outcome{Waits: make([]time.Duration, c.Size), Begin: time.Now()}
	var (
		buyers     sync.WaitGroup
		mu         sync.Mutex // guards out
		sold, gone atomic.Int64
	)
	for i := range c.Size {
		buyers.Go(func() {
			wish := time.Now()
			var bought bool
			err := enter(ctx, func(ctx context.Context) (err error) {
				out.Waits[i] = time.Since(wish)
				bought, err = s.Buy(ctx, c.First+i, c.Think)
				return err
			})
			gone.Add(1)
			mu.Lock()
			defer mu.Unlock()
			if bought {
				out.LastOrder = time.Now()
				sold.Add(1)
			}
			if err != nil {
				if out.Errors++; out.Errors == 1 {
					out.FirstError = fmt.Sprintf("buyer %d: %v", c.First+i, err)
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { buyers.Wait(); close(done) }()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			progress(int(sold.Load()), int(gone.Load()))
		case <-done:
			out.Sold = int(sold.Load())
			return out
		}
	}
}

// client is the process's one rowlock.Client and what it stands on.
type client struct {
	*rowlock.Client
	store lockStore
}

// openClient makes the client and asks the database once, so that its connections
// are open before anything is measured.
func openClient(ctx context.Context, s shop, p place, o rowlock.Options) (*client, error) {
	store, err := s.Locks(p.Strategy)
	if err != nil {
		return nil, err
	}
	c, err := rowlock.New(store, o)
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	if _, err := c.Inspect(ctx, itemKey); err != nil {
		return nil, errors.Join(err, c.Close(ctx), store.Close())
	}
	return &client{Client: c, store: store}, nil
}

// close gives back what is held, and says what it could not give back.
func (c *client) close() error {
	return errors.Join(timed.Within(5*time.Second, c.Client.Close), c.store.Close())
}
