package enginetest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/rowlock/rowlock"
)

// TestDurationsWithoutAUnit: a number without a unit is some nanoseconds. Every duration that a caller
// gives is refused then, before anything is sent, by an error that names it and says what to write.
func TestDurationsWithoutAUnit(t *testing.T) {
	const short = 999 * time.Microsecond
	ctx := context.Background()
	refused := func(t *testing.T, f *faultStore, name string, err error) {
		t.Helper()
		if !errors.Is(err, rowlock.ErrInvalid) || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "at least") {
			t.Errorf("%s: %v, want ErrInvalid that names it and says what is enough", name, err)
		}
		if n := len(f.all()); n > 0 {
			t.Errorf("%s: %d calls of the store", name, n)
		}
	}
	for name, of := range map[string]func(d time.Duration) rowlock.Options{
		"TTL":          func(d time.Duration) rowlock.Options { return rowlock.Options{TTL: d} },
		"Margin":       func(d time.Duration) rowlock.Options { return rowlock.Options{Margin: d} },
		"MaxHold":      func(d time.Duration) rowlock.Options { return rowlock.Options{MaxHold: d} },
		"ReleaseWait":  func(d time.Duration) rowlock.Options { return rowlock.Options{ReleaseWait: d} },
		"Handoff":      func(d time.Duration) rowlock.Options { return rowlock.Options{Handoff: d} },
		"LongHold":     func(d time.Duration) rowlock.Options { return rowlock.Options{LongHold: d} },
		"ReapInterval": func(d time.Duration) rowlock.Options { return rowlock.Options{ReapInterval: d} },
	} {
		for _, d := range []time.Duration{1, 60, short} {
			f := newFaultStore()
			_, err := rowlock.New(f, of(d))
			refused(t, f, name, err)
		}
	}
	f := newFaultStore()
	if _, err := rowlock.New(f, rowlock.Options{ReapInterval: 999 * time.Millisecond}); !errors.Is(err, rowlock.ErrInvalid) {
		t.Errorf("ReapInterval of 999ms: %v", err)
	}
	c := newClient(t, f)
	for name, opt := range map[string]func(time.Duration) rowlock.Option{
		"TTL": rowlock.TTL, "MinHold": rowlock.MinHold, "MaxHold": rowlock.MaxHold,
	} {
		for _, d := range []time.Duration{1, 60, short} {
			_, err := c.Acquire(ctx, "k", opt(d))
			refused(t, f, name, err)
			_, err = c.TryAcquireAll(ctx, rowlock.Keys("k"), opt(d))
			refused(t, f, name, err)
		}
	}
	for _, d := range []time.Duration{1, 60, short, 19 * time.Millisecond} {
		err := rowlock.Every(ctx, c, "k", d, func(context.Context, *rowlock.Lease) error { return errMine })
		refused(t, f, "period", err)
	}
	l, err := c.Acquire(ctx, "k", rowlock.MinHold(time.Millisecond))
	if err != nil {
		t.Error(err)
	}
	l.Release(ctx)
}
