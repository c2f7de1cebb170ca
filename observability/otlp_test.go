package observability

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	metricspb "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	tracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/rowlock/rowlock"
	otelrowlock "github.com/rowlock/rowlock/adapters/otel"
	"github.com/rowlock/rowlock/memory"
)

// FuzzOTLP: keys and names are bytes, and attributes are text. Whatever they are, a receiver of OTLP gets all metrics and spans.
func FuzzOTLP(f *testing.F) {
	for _, s := range []string{"caf\xe9/2", "\xff/2", "a\x00b", "line\nbreak", strings.Repeat("é", 127), strings.Repeat("\xff", 255)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if len(s) == 0 || len(s) > 255 {
			t.Skip()
		}
		metrics, spans := new(metricspb.ExportMetricsServiceRequest), new(tracepb.ExportTraceServiceRequest)
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			to := proto.Message(metrics)
			if strings.HasSuffix(r.URL.Path, "/traces") {
				to = spans
			}
			if err := proto.Unmarshal(body, to); err != nil {
				t.Error(err)
			}
		}))
		defer server.Close()

		ctx := t.Context()
		reader := metric.NewManualReader()
		recorder := tracetest.NewSpanRecorder()
		observer, err := otelrowlock.New(otelrowlock.Config{
			MeterProvider:  metric.NewMeterProvider(metric.WithReader(reader)),
			TracerProvider: trace.NewTracerProvider(trace.WithSpanProcessor(recorder)),
			KeyAttribute:   true, HoldSpans: true, System: s,
		})
		must(t, err)
		c, err := rowlock.New(memory.New(), rowlock.Options{Name: s, KeyName: func(key string) string { return key }, Observers: []*rowlock.Observer{observer}})
		must(t, err)
		must(t, rowlock.Do(ctx, c, s, func(context.Context, *rowlock.Lease) error { return nil }))
		held, err := c.TryAcquire(ctx, s)
		must(t, err)
		if _, err := c.TryAcquire(ctx, s, rowlock.Owner(s)); err == nil {
			t.Error("two holders")
		}
		must(t, held.Release(ctx))
		must(t, c.Close(ctx))

		var all metricdata.ResourceMetrics
		must(t, reader.Collect(ctx, &all))
		toMetrics, err := otlpmetrichttp.New(ctx, otlpmetrichttp.WithEndpointURL(server.URL+"/v1/metrics"))
		must(t, err)
		must(t, toMetrics.Export(ctx, &all))
		toSpans, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(server.URL+"/v1/traces"))
		must(t, err)
		must(t, toSpans.ExportSpans(ctx, recorder.Ended()))
		must(t, toSpans.Shutdown(ctx))
		must(t, toMetrics.Shutdown(ctx))
		if len(metrics.GetResourceMetrics()) == 0 || len(spans.GetResourceSpans()) == 0 {
			t.Error("the receiver got nothing")
		}
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
