package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/examples/internal/fleet"
)

// freeze is what became of the write of a holder that froze, after another had the lock and wrote.
type freeze struct {
	Server   string `json:"server"`
	Strategy string `json:"strategy"`
	Plain    write  `json:"plain"`   // in a transaction of its own
	Guarded  write  `json:"guarded"` // in a transaction that checks the lease
}

// write is the end of a write.
type write struct {
	Overwrote bool   `json:"overwrote"` // the newer price is gone
	Refused   bool   `json:"refused"`   // the error matches rowlock.ErrLost
	Error     string `json:"error"`
}

// String is what the table says.
func (w write) String() string {
	switch {
	case w.Overwrote:
		return "overwrote the newer price"
	case w.Refused:
		return "refused"
	}
	return "failed"
}

// pricing is the task of a process that takes a lock and sets a price.
type pricing struct {
	Place   place
	Key     string // of the lock, and of the price
	TTL     time.Duration
	Guarded bool
	Price   int
}

const (
	oldPrice = 100 // of the holder that freezes
	newPrice = 80  // of the next holder
)

// playPricer takes the lock, looks at it, waits for a word of its parent, and sets the price without a further look.
func playPricer(ctx context.Context, parent *fleet.Parent) error {
	var t pricing
	if err := parent.Receive(&t); err != nil {
		return err
	}
	shop, err := t.Place.open()
	if err != nil {
		return err
	}
	locks, err := openClient(ctx, shop, t.Place, rowlock.Options{TTL: t.TTL})
	if err != nil {
		return errors.Join(err, shop.Close())
	}
	err = t.set(ctx, parent, shop, locks)
	return errors.Join(err, locks.close(), shop.Close())
}

func (t pricing) set(ctx context.Context, parent *fleet.Parent, shop shop, locks *client) error {
	lease, err := locks.Acquire(ctx, t.Key, rowlock.Guarded())
	if err != nil {
		return err
	}
	if err := lease.Err(); err != nil { // all is well
		return err
	}
	if err := parent.Send("held"); err != nil {
		return err
	}
	var signal struct{}
	if err := parent.Receive(&signal); err != nil { // here it freezes
		return err
	}
	if t.Guarded {
		err = shop.SetPriceGuarded(ctx, locks.store, lease, t.Key, t.Price)
	} else {
		err = shop.SetPrice(ctx, t.Key, t.Price)
	}
	var w write
	if err != nil {
		w.Refused, w.Error = errors.Is(err, rowlock.ErrLost), err.Error()
	}
	_ = lease.Release(ctx) // of a lease that is lost the error says so once more
	return parent.Send(w)
}

// freezeAll freezes holders at all places at the same time. Where a process cannot be frozen it returns none.
func (d *demo) freezeAll(ctx context.Context, places []place) ([]freeze, error) {
	limit := 5*d.TTL + 30*time.Second
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("the frozen holders were not done after %v", limit))
	defer cancel()
	line := d.progress("every lock")
	line.say(fmt.Sprintf("freezing holders for longer than their TTL of %v", d.TTL))
	defer line.end()
	list := make([]freeze, len(places))
	errs := make([]error, 2*len(places))
	var all sync.WaitGroup
	for i, p := range places {
		f := &list[i]
		f.Server, f.Strategy = p.Server.Name(), p.Strategy
		plain := pricing{Place: p, Key: "price:" + p.Strategy + ":plain", TTL: d.TTL}
		guarded := pricing{Place: p, Key: "price:" + p.Strategy + ":guarded", TTL: d.TTL, Guarded: true}
		all.Go(func() { f.Plain, errs[2*i] = freezeOne(ctx, plain) })
		all.Go(func() { f.Guarded, errs[2*i+1] = freezeOne(ctx, guarded) })
	}
	all.Wait()
	err := errors.Join(errs...)
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		return nil, nil
	case err != nil:
		return nil, errors.Join(err, context.Cause(ctx))
	}
	return list, nil
}

// freezeOne freezes one holder between its last look at the lock and its write, until the next holder has written.
func freezeOne(ctx context.Context, t pricing) (w write, err error) {
	ctx, cancel := context.WithCancel(ctx)
	var holder, next *fleet.Process
	defer func() {
		cancel() // kills what still runs
		fleet.Reap(holder, next)
	}()
	begin := func(price int) (*fleet.Process, error) {
		t.Price = price
		p, err := fleet.Start(ctx, rolePricer, t)
		if err != nil {
			return nil, err
		}
		var held string
		return p, p.Receive(&held)
	}
	finish := func(p *fleet.Process) (w write, err error) {
		if err := p.Send(struct{}{}); err != nil {
			return w, err
		}
		if err := p.Receive(&w); err != nil {
			return w, err
		}
		return w, p.Close()
	}

	if holder, err = begin(oldPrice); err != nil {
		return w, err
	}
	if err := holder.Freeze(); err != nil {
		return w, err
	}
	if next, err = begin(newPrice); err != nil { // has the lock as soon as the TTL is over
		return w, err
	}
	w, err = finish(next)
	if err == nil && w.Error != "" {
		err = fmt.Errorf("the next holder should set its price: %s", w.Error)
	}
	if err != nil {
		return w, err
	}
	if err := holder.Thaw(); err != nil {
		return w, err
	}
	if w, err = finish(holder); err != nil {
		return w, err
	}
	price, err := t.price(ctx)
	w.Overwrote = price != newPrice
	return w, err
}

// price reads what the price is in the end.
func (t pricing) price(ctx context.Context) (price int, err error) {
	shop, err := t.Place.open()
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, shop.Close()) }()
	return shop.Price(ctx, t.Key)
}
