package promrowlock

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/memory"
)

// FuzzScrape: keys, names and prefixes are bytes, and labels are text. Whatever they are, a scrape has all metrics, and the
// observer goes on.
func FuzzScrape(f *testing.F) {
	for _, s := range []string{"caf\xe9/2", "\xff/2", "a\x00b", "line\nbreak", strings.Repeat("é", 127), strings.Repeat("\xff", 255), `quoted"`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if len(s) == 0 || len(s) > 255 {
			t.Skip()
		}
		reg := prometheus.NewRegistry()
		observer, metrics := New(Options{TraceID: func(context.Context) string { return s + s }})
		var logged strings.Builder
		c, err := rowlock.New(memory.New(), rowlock.Options{
			Name: s, KeyName: func(key string) string { return key + key + key + key + key }, Observers: []*rowlock.Observer{observer},
			Logger: slog.New(slog.NewJSONHandler(&logged, nil)),
		})
		if err != nil {
			t.Fatal(err)
		}
		db, err := NewDBCollector(c, DBOptions{Prefixes: []string{s}})
		if err != nil {
			t.Fatal(err)
		}
		reg.MustRegister(metrics, db)
		for _, key := range []string{s, "good/1"} {
			l, err := c.TryAcquire(t.Context(), key)
			if err != nil {
				t.Fatal(err)
			}
			if key == s {
				scrape(t, reg, "rowlock_oldest_hold_seconds")
			}
			if err := l.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		scrape(t, reg, "rowlock_db_up 1")
		if err := c.Close(t.Context()); err != nil { // all events are told by then
			t.Fatal(err)
		}
		text := scrape(t, reg, "rowlock_late_releases_total")
		if n := strings.Count(text, "rowlock_hold_seconds_count{"); n != 2 {
			t.Errorf("the holds of %d locks, want 2", n)
		}
		if strings.Contains(logged.String(), "panic") {
			t.Error(logged.String())
		}
	})
}

func scrape(t *testing.T, reg *prometheus.Registry, want string) string {
	t.Helper()
	answer := httptest.NewRecorder()
	promhttp.HandlerFor(reg, promhttp.HandlerOpts{EnableOpenMetrics: true}).ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	text, _ := io.ReadAll(answer.Result().Body)
	if answer.Code != http.StatusOK || !strings.Contains(string(text), want) {
		t.Fatalf("scrape: %d, want 200 with %s: %s", answer.Code, want, text)
	}
	return string(text)
}

// TestPrefixesOfOneLabel: two prefixes that are one label are refused, not found out by a scrape.
func TestPrefixesOfOneLabel(t *testing.T) {
	c, err := rowlock.New(memory.New(), rowlock.Options{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = NewDBCollector(c, DBOptions{Prefixes: []string{"caf\xe9/", `caf\xe9/`}})
	if err == nil || !strings.Contains(err.Error(), "twice") {
		t.Error(err)
	}
}
