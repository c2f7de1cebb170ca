package otelrowlock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/memory"
)

// fixture is a client that is observed, and what was collected.
type fixture struct {
	*rowlock.Client
	t      *testing.T
	store  *memory.Store
	reader *metric.ManualReader
	spans  *tracetest.SpanRecorder
	tracer trace.Tracer
}

func newFixture(t *testing.T, o Config) *fixture {
	t.Helper()
	f := &fixture{t: t, store: memory.New(), reader: metric.NewManualReader(), spans: tracetest.NewSpanRecorder()}
	o.MeterProvider = metric.NewMeterProvider(metric.WithReader(f.reader))
	tracers := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(f.spans))
	o.TracerProvider, f.tracer = tracers, tracers.Tracer("test")
	observer, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	f.Client, err = rowlock.New(f.store, rowlock.Options{Name: "jobs", KeyName: rowlock.UpTo("/"), Observers: []*rowlock.Observer{observer}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return f
}

func (f *fixture) acquire(key string) *rowlock.Lease {
	f.t.Helper()
	l, err := f.Acquire(context.Background(), key)
	if err != nil {
		f.t.Fatal(err)
	}
	return l
}

// values are the numbers of a metric (of a histogram: how many), by its attributes.
func (f *fixture) values(name string) map[string]float64 {
	f.t.Helper()
	time.Sleep(time.Second) // what is queued is told
	var all metricdata.ResourceMetrics
	if err := f.reader.Collect(context.Background(), &all); err != nil {
		f.t.Fatal(err)
	}
	got := make(map[string]float64)
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			if m.Name != name {
				continue
			}
			switch data := m.Data.(type) {
			case metricdata.Histogram[float64]:
				for _, p := range data.DataPoints {
					got[text(p.Attributes)] = float64(p.Count)
				}
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					got[text(p.Attributes)] = float64(p.Value)
				}
			default:
				f.t.Fatalf("%s is %T", name, data)
			}
		}
	}
	return got
}

// text is a set of attributes as text, without the prefix rowlock.
func text(set attribute.Set) string {
	var parts []string
	for _, a := range set.ToSlice() {
		parts = append(parts, fmt.Sprintf("%s=%v", strings.TrimPrefix(string(a.Key), "rowlock."), a.Value.AsInterface()))
	}
	slices.Sort(parts)
	return strings.Join(parts, " ")
}

// want fails the test unless the metric has exactly these values.
func (f *fixture) want(name string, want map[string]float64) {
	f.t.Helper()
	got := f.values(name)
	if fmt.Sprint(got) != fmt.Sprint(want) {
		f.t.Errorf("%s is\n\t%v\nwant\n\t%v", name, got, want)
	}
}

// TestMetrics: what is counted, with which attributes, and that losses begin at 0.
func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		f := newFixture(t, Config{System: "mysql"})
		zero := make(map[string]float64)
		for _, r := range rowlock.Reasons() {
			zero["client=jobs reason="+string(r)] = 0
		}
		f.want("rowlock.lease.losses", zero)
		l := f.acquire("import/1")
		for _, r := range rowlock.Reasons() {
			zero["client=jobs lock=import reason="+string(r)] = 0
		}
		f.want("rowlock.lease.losses", zero)
		if _, err := f.TryAcquire(ctx, "import/1"); !errors.Is(err, rowlock.ErrHeld) {
			t.Fatal(err)
		}
		f.want("rowlock.lease.count", map[string]float64{"client=jobs": 1})
		time.Sleep(10 * time.Second)
		f.store.Expire("import/1")
		<-l.Done()
		f.acquire("import/2").Release(ctx)
		zero["client=jobs lock=import reason=taken"] = 1
		f.want("rowlock.lease.losses", zero)
		f.want("rowlock.acquire.duration", map[string]float64{
			"client=jobs local=false lock=import outcome=granted":              2,
			"client=jobs error.type=held local=false lock=import outcome=held": 1,
		})
		f.want("rowlock.hold.duration", map[string]float64{
			"client=jobs end=taken lock=import": 1, "client=jobs end=released lock=import": 1,
		})
		f.want("rowlock.renewal.trust_used", map[string]float64{"client=jobs": 1})
		f.want("rowlock.renewal.duration", map[string]float64{"client=jobs": 1, "client=jobs error.type=lost": 1})
		f.want("rowlock.store.call.duration", map[string]float64{
			"client=jobs db.system.name=mysql op=acquire": 3, "client=jobs db.system.name=mysql op=renew": 2, "client=jobs db.system.name=mysql op=release": 1,
		})
		f.want("rowlock.lease.count", map[string]float64{"client=jobs": 0})
		f.want("rowlock.waiter.count", map[string]float64{"client=jobs": 0})
		f.want("rowlock.undo.count", map[string]float64{"client=jobs": 0})
		f.want("rowlock.event.dropped", map[string]float64{"client=jobs": 0})
		if got := f.values("rowlock.store.statements")["client=jobs db.system.name=mysql"]; got < 6 {
			t.Errorf("%v statements", got)
		}
	})
}

// TestKeyIsNoAttribute: no metric has the key; spans have it only if that was asked for, their errors too.
func TestKeyIsNoAttribute(t *testing.T) {
	for _, asked := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(t, Config{KeyAttribute: asked, HoldSpans: true})
			const key = "import/secret"
			err := rowlock.Do(context.Background(), f, key, func(context.Context, *rowlock.Lease) error {
				f.store.Expire(key)
				time.Sleep(20 * time.Second)
				return nil
			})
			if !errors.Is(err, rowlock.ErrLost) {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			var all metricdata.ResourceMetrics
			if err := f.reader.Collect(context.Background(), &all); err != nil {
				t.Fatal(err)
			}
			if strings.Contains(fmt.Sprintf("%+v", all), "secret") {
				t.Error("a metric has the key")
			}
			for _, s := range f.spans.Ended() {
				has := strings.Contains(fmt.Sprint(s.Attributes(), s.Status().Description, s.Events()), "secret")
				if has != asked {
					t.Errorf("the span %s has the key: %t, want %t", s.Name(), has, asked)
				}
			}
			if n := len(f.spans.Ended()); n != 2 {
				t.Errorf("%d spans", n)
			}
		})
	}
}

// TestSpans: an acquire is a span under its caller's; a hold beside it is the parent of what its function does, and ends
// with the lease. A refused try is no error. Renewals have no spans.
func TestSpans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, Config{HoldSpans: true})
		ctx, request := f.tracer.Start(context.Background(), "request")
		err := rowlock.Do(ctx, f, "import/1", func(ctx context.Context, _ *rowlock.Lease) error {
			_, work := f.tracer.Start(ctx, "work")
			defer work.End()
			if l, err := f.Acquire(ctx, "other"); err == nil { // ends before the hold, whose span goes on
				l.Release(ctx)
			}
			if _, err := f.TryAcquire(context.Background(), "import/1"); !errors.Is(err, rowlock.ErrHeld) {
				t.Error(err)
			}
			time.Sleep(25 * time.Second)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		blocker := f.acquire("import/1")
		f.Acquire(short, "import/1")
		blocker.Release(ctx)
		request.End()

		names := make(map[trace.SpanID]string)
		for _, s := range f.spans.Started() {
			names[s.SpanContext().SpanID()] = s.Name()
		}
		var got []string
		for _, s := range f.spans.Ended() {
			got = append(got, fmt.Sprintf("%s under %q: %v, %v", s.Name(), names[s.Parent().SpanID()], s.Status().Code, s.EndTime().Sub(s.StartTime())))
		}
		slices.Sort(got)
		want := []string{
			`request under "": Unset, 27s`,
			`rowlock.acquire under "": Unset, 0s`, // of the blocker
			`rowlock.acquire under "": Unset, 0s`, // the refused try
			`rowlock.acquire under "request": Error, 1s`,
			`rowlock.acquire under "request": Unset, 0s`,
			`rowlock.acquire under "rowlock.hold": Unset, 0s`,
			`rowlock.hold under "request": Unset, 25s`,
			`work under "rowlock.hold": Unset, 25s`,
		}
		if !slices.Equal(got, want) {
			t.Errorf("spans\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
		}
		for _, s := range f.spans.Ended() {
			if s.Name() == "rowlock.acquire" && s.Status().Code == codes.Error && s.Status().Description != "deadline_exceeded" && s.Status().Description != "held" {
				t.Errorf("the span of an error says %q", s.Status().Description)
			}
		}
	})
}

// TestExemplars: the duration of an acquire has the span of its caller as exemplar.
func TestExemplars(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, Config{})
		ctx, request := f.tracer.Start(context.Background(), "request")
		defer request.End()
		l, err := f.Acquire(ctx, "k")
		if err != nil {
			t.Fatal(err)
		}
		l.Release(ctx)
		time.Sleep(time.Second)
		var all metricdata.ResourceMetrics
		if err := f.reader.Collect(context.Background(), &all); err != nil {
			t.Fatal(err)
		}
		want := request.SpanContext().TraceID()
		found := 0
		for _, m := range all.ScopeMetrics[0].Metrics {
			if h, ok := m.Data.(metricdata.Histogram[float64]); ok {
				for _, p := range h.DataPoints {
					for _, e := range p.Exemplars {
						if trace.TraceID(e.TraceID) == want {
							found++
						}
					}
				}
			}
		}
		if found != 2 { // acquire and hold
			t.Errorf("%d exemplars of the trace", found)
		}
	})
}

// TestLocksAreBounded: keys with many names have few values of rowlock.lock.
func TestLocksAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, Config{})
		for i := range 3 * maxLocks {
			f.acquire(fmt.Sprintf("lock%d/x", i))
		}
		got := f.values("rowlock.acquire.duration")
		if len(got) != maxLocks || got["client=jobs local=false lock=_other outcome=granted"] != 2*maxLocks+1 {
			t.Errorf("%d sets of attributes; the others have %v", len(got), got["client=jobs local=false lock=_other outcome=granted"])
		}
	})
}

// TestUnsampledAllocates: the events of an acquire whose span is not sampled, and of its lease, allocate nothing but what
// the tracer does to say so.
func TestUnsampledAllocates(t *testing.T) {
	meters := metric.NewMeterProvider(metric.WithReader(metric.NewManualReader()))
	tracers := sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.NeverSample()))
	made, err := New(Config{MeterProvider: meters, TracerProvider: tracers, System: "mysql"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, tracer := t.Context(), tracers.Tracer(Scope)
	want := testing.AllocsPerRun(1000, func() { tracer.Start(ctx, "rowlock.acquire") })
	got := testing.AllocsPerRun(1000, func() {
		ctx := made.AcquireStart(ctx, rowlock.AcquireStart{Client: "jobs", Key: "import/1", Name: "import", TTL: time.Second})
		made.Called(rowlock.Called{Client: "jobs", Op: "acquire", Keys: 1, Took: time.Millisecond})
		made.AcquireEnd(ctx, rowlock.AcquireEnd{Client: "jobs", Key: "import/1", Name: "import", Waited: time.Millisecond})
		made.Renewed(rowlock.Renewed{Client: "jobs", Key: "import/1", Name: "import", Left: time.Second, Trust: time.Second})
		made.Called(rowlock.Called{Client: "jobs", Op: "release", Keys: 1, Took: time.Millisecond})
		made.LeaseEnd(ctx, rowlock.LeaseEnd{Client: "jobs", Key: "import/1", Name: "import", Held: time.Second})
	})
	if got > want {
		t.Errorf("%v allocations, of which the tracer has %v", got, want)
	}
}

// BenchmarkCycle is an acquire and its release over the memory store: without an observer, with metrics, and with
// metrics and spans that are not sampled, and that are.
func BenchmarkCycle(b *testing.B) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	meters := metric.NewMeterProvider(metric.WithReader(metric.NewManualReader()))
	for name, o := range map[string]*Config{
		"Off":       nil,
		"Metrics":   {MeterProvider: meters},
		"Unsampled": {MeterProvider: meters, TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.NeverSample()))},
		"Sampled":   {MeterProvider: meters, TracerProvider: sdktrace.NewTracerProvider()},
	} {
		opts := rowlock.Options{Name: "jobs", KeyName: rowlock.UpTo("/")}
		if o != nil {
			observer, err := New(*o)
			if err != nil {
				b.Fatal(err)
			}
			opts.Observers = []*rowlock.Observer{observer}
		}
		c, err := rowlock.New(memory.New(), opts)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				l, err := c.Acquire(ctx, "import/1")
				if err != nil {
					b.Fatal(err)
				}
				l.Release(ctx)
			}
			b.ReportMetric(float64(c.Stats().DroppedEvents)/float64(b.N), "dropped/op")
		})
		c.Close(ctx)
	}
}
