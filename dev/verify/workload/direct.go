package workload

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/rowlock/rowlock/dev/verify/history"
	"github.com/rowlock/rowlock/dev/verify/timed"
	"github.com/rowlock/rowlock/driver"
)

// Direct is the way to a server's spaces that no fault of the network is on, and that
// takes no locks: it prepares, observes, and reads the ledgers at the end.
type Direct struct {
	spaces []string
	locks  []observed
	side   side
}

// observed is what Direct needs of a store.
type observed interface {
	driver.Store
	driver.Reaper
	driver.Forcer
	driver.Closer
	Migrate(context.Context) error
}

// side is what Direct needs of a server beside the locks.
type side interface {
	prepare(ctx context.Context) error
	tune(ctx context.Context) error
	registers(ctx context.Context, space string, keys []string) error
	ledger(ctx context.Context, space, name string) ([]history.Event, error)
	seen(ctx context.Context, space, key string) ([]history.Event, error)
	effects(ctx context.Context, space, key string) ([]history.Event, error)
	marks(ctx context.Context, space, key string) ([]history.Event, error)
	pulse(ctx context.Context) error
	close() error
}

// SpacesOf are the spaces of a server, by whether it speaks SQL.
func SpacesOf(sql bool) []string {
	if sql {
		return []string{Version, Unique, ForUpdate}
	}
	return []string{Mongo}
}

// OpenDirect opens the spaces of a server and makes all tables that are missing.
func OpenDirect(ctx context.Context, spaces []string, address string) (d *Direct, err error) {
	d = &Direct{spaces: spaces}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.Close())
		}
	}()
	for _, space := range spaces {
		b, err := open(space, Task{Address: address})
		if err != nil {
			return d, err
		}
		d.locks = append(d.locks, b.store().(observed))
		if d.side == nil {
			d.side = b.(side)
		} else {
			defer b.(*sqlBackend).closeSide() // one is enough
		}
	}
	for _, s := range d.locks {
		if err := s.Migrate(ctx); err != nil {
			return d, err
		}
	}
	return d, d.side.prepare(ctx)
}

// Close closes what OpenDirect opened.
func (d *Direct) Close() (err error) {
	for _, s := range d.locks {
		err = errors.Join(err, s.Close())
	}
	if d.side != nil {
		err = errors.Join(err, d.side.close())
	}
	return err
}

// Registers makes the registers of keys in each space, with value and token 0.
func (d *Direct) Registers(ctx context.Context, keys []string) error {
	for _, space := range d.spaces {
		if err := d.side.registers(ctx, space, keys); err != nil {
			return fmt.Errorf("make registers: %w", err)
		}
	}
	return nil
}

// Tune gives the server the settings of rounds, which a restart takes away.
func (d *Direct) Tune(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	return d.side.tune(ctx)
}

// Reap runs the reaper of each space once, with the smallest grace that it takes.
func (d *Direct) Reap(ctx context.Context) (err error) {
	for _, s := range d.locks {
		_, e := s.Reap(ctx, time.Hour)
		err = errors.Join(err, e)
	}
	return err
}

// Force releases keys of one space by force, as an operator does.
func (d *Direct) Force(ctx context.Context, space string, keys []string) (err error) {
	for _, key := range keys {
		_, e := d.locks[slices.Index(d.spaces, space)].ForceRelease(ctx, key)
		err = errors.Join(err, e)
	}
	return err
}

// Pulses writes a row every now and then, durably and on a new connection, until ctx ends, and
// records how long that took. One that hangs keeps none from being sent: they tell when the server works again.
func (d *Direct) Pulses(ctx context.Context, rec *history.Recorder, every time.Duration) {
	var all sync.WaitGroup
	for ctx.Err() == nil {
		all.Go(func() { pulse(ctx, rec, history.Pulse, d.side.pulse) })
		timed.Rest(ctx, every)
	}
	all.Wait()
}

// pulses are one after the other.
func pulses(ctx context.Context, rec *history.Recorder, kind history.Kind, every time.Duration, write func(context.Context) error) {
	for ctx.Err() == nil {
		pulse(ctx, rec, kind, write)
		timed.Rest(ctx, every)
	}
}

// pulse is one. The end of ctx does not cut it off: it would look like a server that does not answer.
func pulse(ctx context.Context, rec *history.Recorder, kind history.Kind, write func(context.Context) error) {
	bound, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	e := rec.Begin(history.Event{Kind: kind})
	err := write(bound)
	e.Result, e.Error = history.OK, text(err)
	if err != nil {
		e.Result = history.Failed
	}
	rec.End(e)
}

// Observe asks for the state of keys in each space and records it. The error is that
// of the last space that did not answer.
func (d *Direct) Observe(ctx context.Context, rec *history.Recorder, keys []string) (failed error) {
	for i, s := range d.locks {
		for rest := keys; len(rest) > 0; {
			n := min(len(rest), s.Limits().Batch)
			if err := observe(ctx, rec, d.spaces[i], s, rest[:n]); err != nil {
				failed = err
			}
			rest = rest[n:]
		}
	}
	return failed
}

func observe(ctx context.Context, rec *history.Recorder, space string, s driver.Store, keys []string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	begin := rec.Begin(history.Event{Kind: history.Observe, Space: space})
	infos, err := s.Inspect(ctx, keys)
	for i, key := range keys {
		e := begin
		e.Key = key
		if i > 0 {
			e.ID = 0 // another event, of the same time
		}
		switch {
		case err != nil:
			e.Result, e.Error, e.Raised = history.Failed, text(err), raised(err)
		case infos[i].Held:
			e.Result, e.Owner, e.Token = history.Held, infos[i].Owner, infos[i].Token
			if infos[i].InPhase() { // Since is the beginning of the phase
				e.Mode, e.Value, e.Slot = history.InPhase, int64(infos[i].Readers), infos[i].Slots
			} else if !infos[i].Since.IsZero() {
				e.Age = max(0, time.Since(infos[i].Since))
			}
		default:
			e.Result, e.Token = history.Free, infos[i].Token
		}
		e.End = history.Now()
		rec.Add(e)
	}
	return err
}

// Ledgers records the rows of the ledgers of keys, and of those of their slots, and what
// readers found in them.
func (d *Direct) Ledgers(ctx context.Context, rec *history.Recorder, keys []string) error {
	for _, space := range d.spaces {
		for _, key := range keys {
			for slot := -1; slot < MostSlots; slot++ {
				e := history.Event{Kind: history.Ledger, Space: space, Key: key}
				name := key
				if slot >= 0 {
					name, e.Mode, e.Slot = slotLedger(key, slot), history.Slot, slot
				}
				rows, err := read(ctx, d.side.ledger, space, name)
				if err != nil {
					return fmt.Errorf("read the ledger of %s: %w", name, err)
				}
				addRows(rec, rows, e)
			}
			rows, err := read(ctx, d.side.seen, space, key)
			if err != nil {
				return fmt.Errorf("read what readers of %s found: %w", key, err)
			}
			addRows(rec, rows, history.Event{Kind: history.Seen, Space: space, Key: key})
		}
	}
	return nil
}

// read asks again what a server that just had a fault may refuse.
func read(ctx context.Context, ask func(ctx context.Context, space, key string) ([]history.Event, error), space, key string) (found []history.Event, err error) {
	err = timed.Persist(ctx, func() error {
		found, err = ask(ctx, space, key)
		return err
	})
	return found, err
}

// addRows records rows of a kind.
func addRows(rec *history.Recorder, rows []history.Event, of history.Event) {
	for _, e := range rows {
		e.Kind, e.Space, e.Key, e.Mode, e.Slot = of.Kind, of.Space, of.Key, of.Mode, of.Slot
		rec.Add(e)
	}
}

// Effects records the effects and the marks of keys.
func (d *Direct) Effects(ctx context.Context, rec *history.Recorder, keys []string) error {
	for _, space := range d.spaces {
		for _, key := range keys {
			made, err := read(ctx, d.side.effects, space, key)
			if err != nil {
				return fmt.Errorf("read the effects of %s: %w", key, err)
			}
			marks, err := read(ctx, d.side.marks, space, key)
			if err != nil {
				return fmt.Errorf("read the marks of %s: %w", key, err)
			}
			for _, e := range append(made, marks...) {
				e.Space, e.Key = space, key
				rec.Add(e)
			}
		}
	}
	return nil
}
