package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/examples/internal/fleet"
	mongolock "github.com/rowlock/rowlock/mongo"
)

// workerTask is what a worker is told.
type workerTask struct {
	Space    string // the database
	Products int
	TTL      time.Duration
	Worker   int
}

// event is what a worker reports to the parent, which only counts and draws.
type event struct {
	Kind    kind
	Product int
	Problem string
}

type kind string

const (
	began     kind = "began"     // it has the lock of a product
	fulfilled kind = "fulfilled" // one more order
	already   kind = "already"   // an order that is fulfilled already
	restocked kind = "restocked" // units came in
	lost      kind = "lost"      // it had the lock of a product, and lost it
	empty     kind = "empty"     // no orders are left
	round     kind = "round"     // it has tried all products once
	alert     kind = "alert"     // anything else: somebody must look
)

// worker is one process.
type worker struct {
	workerTask
	parent    *fleet.Parent
	store     *mongolock.Store
	warehouse *warehouse
}

const (
	turn   = 20  // how many deliveries of a product a worker takes before others may have it
	supply = 100 // units that come in at once
)

// playWorker goes from product to product until the parent says stop.
func playWorker(ctx context.Context, parent *fleet.Parent) (err error) {
	w := &worker{parent: parent}
	if err := parent.Receive(&w.workerTask); err != nil {
		return err
	}
	if w.warehouse, err = openWarehouse(w.Space); err != nil {
		return err
	}
	if w.store, err = mongolock.New(w.warehouse.db.Collection("locks"), mongolock.Options{}); err != nil {
		return err
	}
	locks, err := rowlock.New(w.store, rowlock.Options{TTL: w.TTL})
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		err = errors.Join(err, locks.Close(ctx), w.store.Close(), w.warehouse.close(ctx))
	}()

	for ctx.Err() == nil {
		for _, i := range rand.Perm(w.Products) {
			w.visit(ctx, locks, i+1)
		}
		w.report(event{Kind: round})
		n, err := w.warehouse.inbox.EstimatedDocumentCount(ctx)
		if err == nil && n == 0 {
			w.report(event{Kind: empty})
		}
		time.Sleep(20 * time.Millisecond)
	}
	return nil
}

// visit works on a product, if no other worker does.
func (w *worker) visit(ctx context.Context, locks rowlock.Locker, product int) {
	err := rowlock.Do(ctx, locks, fmt.Sprintf("product:%d", product), func(ctx context.Context, lease *rowlock.Lease) error {
		return w.work(ctx, lease, product)
	}, rowlock.NoWait(), rowlock.Guarded())
	switch {
	case err == nil, errors.Is(err, rowlock.ErrHeld), ctx.Err() != nil:
	case errors.Is(err, rowlock.ErrReleasing): // what this worker lost or gave back a moment ago is not settled: the next round
	case errors.Is(err, rowlock.ErrLost):
		w.report(event{Kind: lost, Product: product})
	default:
		w.report(event{Kind: alert, Product: product, Problem: err.Error()})
	}
}

// work fulfils the next orders of a product.
func (w *worker) work(ctx context.Context, lease *rowlock.Lease, product int) error {
	deliveries, err := w.warehouse.next(ctx, product, turn)
	if err != nil || len(deliveries) == 0 {
		return err
	}
	w.report(event{Kind: began, Product: product})
	for _, d := range deliveries {
		if err := w.restock(ctx, lease, d); err != nil {
			return err
		}
		switch err := w.fulfil(ctx, lease, d); {
		case errors.Is(err, rowlock.ErrAlreadyRan):
			w.report(event{Kind: already, Product: product})
		case err != nil:
			return err
		default:
			w.report(event{Kind: fulfilled, Product: product})
		}
		// Outside of the transaction: a worker that dies before this leaves a delivery
		// that is done, and the next one finds that by ErrAlreadyRan.
		if err := w.warehouse.done(ctx, d); err != nil {
			return err
		}
	}
	return nil
}

// fulfil fulfils an order once. While nobody knows what became of a commit it asks
// again: with the same run ID that is safe.
func (w *worker) fulfil(ctx context.Context, lease *rowlock.Lease, d delivery) error {
	for {
		err := w.store.Once(ctx, lease, fmt.Sprintf("order-%d", d.Order), func(ctx context.Context) error {
			return w.warehouse.move(ctx, movement{Product: d.Product, Order: d.Order, Units: -d.Units, Worker: w.Worker, Token: lease.Token()})
		})
		if !errors.Is(err, rowlock.ErrUnknownOutcome) {
			return err
		}
	}
}

// restock lets units come in if an order needs more than there are. It has no run
// ID, so it is no Once: how many units there are says whether it is needed, and it
// looks in the transaction.
func (w *worker) restock(ctx context.Context, lease *rowlock.Lease, d delivery) error {
	for {
		if left, err := w.warehouse.left(ctx, d.Product); err != nil || left >= d.Units {
			return err // of this product nobody else takes any
		}
		err := w.store.InTx(ctx, lease, func(ctx context.Context) error {
			if left, err := w.warehouse.left(ctx, d.Product); err != nil || left >= d.Units {
				return err
			}
			return w.warehouse.move(ctx, movement{Product: d.Product, Units: supply, Worker: w.Worker, Token: lease.Token()})
		})
		if !errors.Is(err, rowlock.ErrUnknownOutcome) {
			if err == nil {
				w.report(event{Kind: restocked, Product: d.Product})
			}
			return err
		}
	}
}

func (w *worker) report(e event) { _ = w.parent.Send(e) }
