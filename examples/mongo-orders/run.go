package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/rowlock/rowlock/examples/internal/fleet"
	"github.com/rowlock/rowlock/examples/internal/servers"
	"github.com/rowlock/rowlock/examples/internal/timed"
	mongolock "github.com/rowlock/rowlock/mongo"
)

// limit ends a run that does not come to its end.
const limit = 4 * time.Minute

// run lets the workers work and prints what came of it. The error says what is
// wrong.
func (d *demo) run(ctx context.Context, out io.Writer) (err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("orders are left after %v", limit))
	defer cancel()
	about, err := servers.MongoDB.About(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%d orders for %d products on %s %s, %d workers, TTL %v\n\n", d.Orders, d.Products, about.Server, about.Version, d.Workers, d.TTL)
	space := servers.NewSpace("orders")
	defer servers.MongoDB.Drop("mongo-orders", space)
	w, err := openWarehouse(space)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, timed.Within(2*time.Second, w.close)) }()
	units, err := w.fill(ctx, d.Orders, d.Products)
	if err != nil {
		return err
	}
	store, err := mongolock.New(w.db.Collection("locks"), mongolock.Options{})
	if err != nil {
		return err
	}
	if err := errors.Join(store.Migrate(ctx), store.Close()); err != nil { // once, as a deployment would
		return fmt.Errorf("make the lock collections: %w", err)
	}

	crew, err := fleet.NewCrew[event](ctx, roleWorker, d.Workers, func(worker int) any {
		return workerTask{Space: space, Products: d.Products, TTL: d.TTL, Worker: worker}
	}, fleet.Faults(d.Kills, d.Freezes, d.freeze(), d.Orders))
	if err != nil {
		return err
	}
	defer crew.End()
	r := newReport(out, d.Orders)
	err = crew.Run(r.Log, func(worker int, e event) {
		r.heard(worker, e)
		if e.Kind == fulfilled {
			crew.Progress(worker, r.fulfilled, orderTime)
		}
	}, r.over)
	if err != nil {
		return err
	}
	b, err := w.audit(ctx, d.Orders, units)
	if err != nil {
		return err
	}
	return r.verdict(out, b)
}

// orderTime is longer than an order takes: a fault comes at any moment of it.
const orderTime = 50 * time.Millisecond
