package otelrowlock

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/words"
)

// Scope is the name of the instrumentation scope.
const Scope = "github.com/rowlock/rowlock/adapters/otel"

// Config says where telemetry goes. The zero value is good.
type Config struct {
	// MeterProvider and TracerProvider are by default the global ones (package otel).
	MeterProvider  metric.MeterProvider
	TracerProvider trace.TracerProvider

	// System is the attribute db.system.name of calls of the store: "mysql", "mariadb",
	// "mongodb". Default: they have none.
	System string

	// HoldSpans makes a span of each hold of Do, Lead and Every, which is the parent of what
	// their function does. A span that is open when the process dies is lost: for short holds.
	HoldSpans bool

	// KeyAttribute puts the key on spans (rowlock.key), never on metrics. Keys may have
	// personal data in them. Default: only the name of the lock is.
	KeyAttribute bool
}

const (
	maxLocks   = 100
	otherLocks = "_other"
)

// observer feeds the instruments.
type observer struct {
	o      Config
	tracer trace.Tracer
	instruments

	mu      sync.RWMutex
	clients map[*rowlock.Client]attribute.Set
	locks   map[string]bool // values of rowlock.lock

	known knownSets
}

// New makes an observer, for rowlock.Options.Observers. An error is one of the MeterProvider.
func New(o Config) (*rowlock.Observer, error) {
	if o.MeterProvider == nil {
		o.MeterProvider = otel.GetMeterProvider()
	}
	if o.TracerProvider == nil {
		o.TracerProvider = otel.GetTracerProvider()
	}
	ob := &observer{
		o: o, tracer: o.TracerProvider.Tracer(Scope),
		clients: make(map[*rowlock.Client]attribute.Set), locks: make(map[string]bool),
	}
	if err := ob.makeInstruments(o.MeterProvider.Meter(Scope)); err != nil {
		return nil, fmt.Errorf("otelrowlock: %w", err)
	}
	r := &rowlock.Observer{
		ClientStart: ob.clientStart, ClientEnd: ob.clientEnd,
		AcquireStart: ob.acquireStart, AcquireEnd: ob.acquireEnd,
		LeaseEnd: ob.leaseEnd, Renewed: ob.renewed, Called: ob.called,
	}
	if o.HoldSpans {
		r.HoldStart = ob.holdStart
	}
	return r, nil
}

func (ob *observer) clientStart(c *rowlock.Client) {
	ob.mu.Lock()
	ob.clients[c] = attribute.NewSet(clientAttrs(c.Name())...)
	ob.mu.Unlock()
	ob.setsOf(c.Name(), "") // losses at 0
}

func (ob *observer) clientEnd(c *rowlock.Client) {
	ob.mu.Lock()
	defer ob.mu.Unlock()
	delete(ob.clients, c)
}

func clientAttrs(name string, more ...attribute.KeyValue) []attribute.KeyValue {
	if name != "" {
		more = append(more, attribute.String("rowlock.client", words.Text(name)))
	}
	return more
}

// errorType is a value of error.type: few words for many errors.
func errorType(err error) string {
	for _, known := range []struct {
		err  error
		name string
	}{
		{rowlock.ErrHeld, "held"}, {rowlock.ErrLost, "lost"}, {rowlock.ErrClosed, "closed"}, {rowlock.ErrSchema, "schema"},
		{context.DeadlineExceeded, "deadline_exceeded"}, {context.Canceled, "canceled"},
	} {
		if errors.Is(err, known.err) {
			return known.name
		}
	}
	if driver.IsLasting(err) {
		return "lasting"
	}
	return "_OTHER"
}
