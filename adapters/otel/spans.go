package otelrowlock

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/internal/words"
)

// acquiring and holding are the spans of a context. The innermost span in it may be one of the
// user's, and the hold that of another lease, under which this one was acquired.
type (
	acquiring struct{}
	holding   struct{}
)

type holdSpan struct {
	trace.Span
	of *rowlock.Lease
}

// acquireSpan is a span with what its end needs of the beginning.
type acquireSpan struct {
	trace.Span
	try bool
}

func (ob *observer) acquireStart(ctx context.Context, e rowlock.AcquireStart) context.Context {
	next, span := ob.tracer.Start(ctx, "rowlock.acquire")
	if !span.IsRecording() {
		return next
	}
	span.SetAttributes(append(ob.spanAttrs(e.Client, e.Key, e.Name),
		attribute.Float64("rowlock.ttl", e.TTL.Seconds()), attribute.String("rowlock.mode", e.Mode.String()), attribute.Bool("rowlock.try", e.Try))...)
	return context.WithValue(next, acquiring{}, acquireSpan{span, e.Try})
}

func (ob *observer) acquireEnd(ctx context.Context, e rowlock.AcquireEnd) {
	ob.acquireMetrics(ctx, e)
	span, ok := ctx.Value(acquiring{}).(acquireSpan)
	if !ok {
		return
	}
	attrs := append(make([]attribute.KeyValue, 0, 5), attribute.String("rowlock.outcome", e.Outcome()), attribute.Bool("rowlock.local", e.Local),
		attribute.Int("rowlock.attempts", e.Attempts), attribute.Int("rowlock.ahead", e.Ahead))
	if e.Err == nil {
		attrs = append(attrs, attribute.Int64("rowlock.token", e.Lease.Token()))
	}
	span.SetAttributes(attrs...)
	switch {
	case e.Err == nil:
	case span.try && errors.Is(e.Err, rowlock.ErrHeld): // the answer that was asked for
	default:
		ob.failed(span, e.Err)
	}
	span.End()
}

func (ob *observer) holdStart(ctx context.Context, l *rowlock.Lease) context.Context {
	next, span := ob.tracer.Start(ctx, "rowlock.hold")
	if !span.IsRecording() {
		return next
	}
	span.SetAttributes(attribute.Int64("rowlock.token", l.Token()))
	return context.WithValue(next, holding{}, holdSpan{span, l})
}

func (ob *observer) leaseEnd(ctx context.Context, e rowlock.LeaseEnd) {
	ob.leaseMetrics(ctx, e)
	if !ob.o.HoldSpans {
		return
	}
	span, ok := ctx.Value(holding{}).(holdSpan)
	if !ok || span.of != e.Lease {
		return
	}
	span.SetAttributes(append(ob.spanAttrs(e.Client, e.Key, e.Name),
		attribute.String("rowlock.end", e.End()), attribute.Int("rowlock.renewals", e.Renewals), attribute.Bool("rowlock.late", e.Late))...)
	if e.Err != nil {
		span.AddEvent("lost", trace.WithTimestamp(e.At))
		ob.failed(span, e.Err)
	}
	span.End(trace.WithTimestamp(e.At))
}

// failed marks a span. The text of an error has the key in it.
func (ob *observer) failed(span trace.Span, err error) {
	kind := errorType(err)
	span.SetAttributes(attribute.String("error.type", kind))
	text := kind
	if ob.o.KeyAttribute {
		text = words.Text(err.Error())
	}
	span.SetStatus(codes.Error, text)
}

// spanAttrs are the attributes that each span has, with room for three of its own.
func (ob *observer) spanAttrs(client, key, name string) []attribute.KeyValue {
	attrs := clientAttrs(client, make([]attribute.KeyValue, 0, 6)...)
	if name != "" {
		attrs = append(attrs, attribute.String("rowlock.lock", words.Text(name)))
	}
	if ob.o.KeyAttribute {
		attrs = append(attrs, attribute.String("rowlock.key", words.Text(key)))
	}
	return attrs
}
