package otelrowlock

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/internal/words"
)

// instruments are the metrics; see the package comment.
type instruments struct {
	acquire, hold, renewal, trust, call metric.Float64Histogram
	losses                              metric.Int64Counter
}

func (ob *observer) makeInstruments(m metric.Meter) (err error) {
	histogram := func(name, unit, text string, buckets ...float64) (h metric.Float64Histogram) {
		if err == nil {
			h, err = m.Float64Histogram(name, metric.WithUnit(unit), metric.WithDescription(text), metric.WithExplicitBucketBoundaries(buckets...))
		}
		return h
	}
	calls := []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}
	ob.acquire = histogram("rowlock.acquire.duration", "s", "How long callers waited for a key.",
		.005, .02, .1, .5, 5, 60)
	ob.hold = histogram("rowlock.hold.duration", "s", "How long leases were held.",
		.05, .5, 5, 60, 600, 3600)
	ob.renewal = histogram("rowlock.renewal.duration", "s", "How long renewals took.", calls...)
	ob.trust = histogram("rowlock.renewal.trust_used", "1", "Share of a lease's trust that was used when its renewal was acknowledged; 0.37 is healthy.",
		.2, .35, .4, .5, .6, .7, .75, .8, .9, 1)
	ob.call = histogram("rowlock.store.call.duration", "s", "How long calls of the store took.", calls...)
	if err != nil {
		return err
	}
	if ob.losses, err = m.Int64Counter("rowlock.lease.losses", metric.WithUnit("{loss}"), metric.WithDescription("Leases that ended before their release.")); err != nil {
		return err
	}
	return ob.makeObserved(m)
}

// makeObserved makes the instruments that ask the clients.
func (ob *observer) makeObserved(m metric.Meter) (err error) {
	now := func(name, unit, text string) (c metric.Int64ObservableUpDownCounter) {
		if err == nil {
			c, err = m.Int64ObservableUpDownCounter(name, metric.WithUnit(unit), metric.WithDescription(text))
		}
		return c
	}
	total := func(name, unit, text string) (c metric.Int64ObservableCounter) {
		if err == nil {
			c, err = m.Int64ObservableCounter(name, metric.WithUnit(unit), metric.WithDescription(text))
		}
		return c
	}
	leases := now("rowlock.lease.count", "{lease}", "Leases held now.")
	waiters := now("rowlock.waiter.count", "{waiter}", "Callers that wait for a key now.")
	undos := now("rowlock.undo.count", "{attempt}", "Attempts and releases whose outcome is not known yet.")
	statements := total("rowlock.store.statements", "{statement}", "Statements sent by the store, for all its clients.")
	dropped := total("rowlock.event.dropped", "{event}", "Events that observers took too slowly.")
	if err != nil {
		return err
	}
	_, err = m.RegisterCallback(func(_ context.Context, to metric.Observer) error {
		ob.mu.RLock()
		defer ob.mu.RUnlock()
		for set, s := range ob.statsByName() {
			attrs := metric.WithAttributeSet(set)
			to.ObserveInt64(leases, int64(s.Held), attrs)
			to.ObserveInt64(waiters, int64(s.Waiting), attrs)
			to.ObserveInt64(undos, int64(s.Unresolved), attrs)
			to.ObserveInt64(dropped, int64(s.DroppedEvents), attrs)
			to.ObserveInt64(statements, int64(s.Statements), metric.WithAttributes(append(ob.system(), set.ToSlice()...)...))
		}
		return nil
	}, leases, waiters, undos, statements, dropped)
	return err
}

// statsByName adds up the clients of one name. Called under ob.mu.
func (ob *observer) statsByName() map[attribute.Set]rowlock.Stats {
	all := make(map[attribute.Set]rowlock.Stats)
	for c, set := range ob.clients {
		sum, s := all[set], c.Stats()
		sum.Held += s.Held
		sum.Waiting += s.Waiting
		sum.Unresolved += s.Unresolved
		sum.DroppedEvents += s.DroppedEvents
		sum.Statements += s.Statements
		all[set] = sum
	}
	return all
}

func (ob *observer) system() []attribute.KeyValue {
	if ob.o.System == "" {
		return nil
	}
	return []attribute.KeyValue{attribute.String("db.system.name", words.Text(ob.o.System))}
}

func (ob *observer) acquireMetrics(ctx context.Context, e rowlock.AcquireEnd) {
	sets := ob.setsOf(e.Client, e.Name)
	switch {
	case e.Err != nil:
		ob.acquire.Record(ctx, e.Waited.Seconds(), metric.WithAttributes(append(sets.attrs(),
			attribute.String("rowlock.outcome", e.Outcome()), attribute.Bool("rowlock.local", false), attribute.String("error.type", errorType(e.Err)))...))
	case e.Local:
		ob.acquire.Record(ctx, e.Waited.Seconds(), sets.locals...)
	default:
		ob.acquire.Record(ctx, e.Waited.Seconds(), sets.granted...)
	}
}

func (ob *observer) leaseMetrics(ctx context.Context, e rowlock.LeaseEnd) {
	sets := ob.setsOf(e.Client, e.Name)
	if e.Err == nil {
		ob.hold.Record(ctx, e.Held.Seconds(), sets.released...)
		return
	}
	end := e.End()
	ob.hold.Record(ctx, e.Held.Seconds(), metric.WithAttributes(append(sets.attrs(), attribute.String("rowlock.end", end))...))
	ob.losses.Add(ctx, 1, metric.WithAttributes(append(sets.attrs(), attribute.String("rowlock.reason", end))...))
}

func (ob *observer) renewed(e rowlock.Renewed) {
	ctx, attrs := context.Background(), ob.setsOf(e.Client, "").renewed
	if e.Err == nil {
		ob.trust.Record(ctx, e.TrustUsed(), attrs...)
	} else {
		attrs = []metric.RecordOption{metric.WithAttributes(clientAttrs(e.Client, attribute.String("error.type", errorType(e.Err)))...)}
	}
	ob.renewal.Record(ctx, e.Took.Seconds(), attrs...)
}

func (ob *observer) called(e rowlock.Called) {
	attrs := ob.setsOf(e.Client, "").opAttrs(e.Op)
	if attrs == nil || e.Err != nil {
		all := append(clientAttrs(e.Client, ob.system()...), attribute.String("rowlock.op", words.Text(e.Op)))
		if e.Err != nil {
			all = append(all, attribute.String("error.type", errorType(e.Err)))
		}
		attrs = []metric.RecordOption{metric.WithAttributes(all...)}
	}
	ob.call.Record(context.Background(), e.Took.Seconds(), attrs...)
}
