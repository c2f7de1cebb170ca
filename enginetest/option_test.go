package enginetest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/memory"
)

// TestBadOptions: a bad option is an error that matches ErrInvalid, names the
// value, and says what would be right.
func TestBadOptions(t *testing.T) {
	store, noBatch := withLimits(driver.Limits{Batch: 10, MinTTL: time.Second}), withLimits(driver.Limits{})
	for name, tc := range map[string]struct {
		store driver.Store
		o     rowlock.Options
		want  []string
	}{
		"nil store":              {want: []string{"nil"}},
		"store without a batch":  {store: noBatch, want: []string{"batch", "0"}},
		"store to wait in":       {store: struct{ driver.Store }{memory.New()}, want: []string{"driver.Liner", "driver.Queuer"}},
		"store without lines":    {store: linesAndQueue(false), want: []string{"Limits.Line", "Limits.Queue"}},
		"lines and queue":        {store: linesAndQueue(true), want: []string{"either", "Limits.Line", "Limits.Queue"}},
		"TTL too short":          {store: store, o: rowlock.Options{TTL: 999 * time.Millisecond}, want: []string{"999ms", "1s"}},
		"TTL negative":           {store: store, o: rowlock.Options{TTL: -1}, want: []string{"TTL", "-1ns"}},
		"TTL absurd":             {store: store, o: rowlock.Options{TTL: 1 << 62}, want: []string{"TTL", "8784h"}},
		"margin over TTL":        {store: store, o: rowlock.Options{TTL: time.Second, Margin: time.Second}, want: []string{"Margin 1s", "TTL 1s"}},
		"margin negative":        {store: store, o: rowlock.Options{Margin: -time.Second}, want: []string{"Margin -1s"}},
		"MaxHold under TTL":      {store: store, o: rowlock.Options{TTL: 10 * time.Second, MaxHold: 9 * time.Second}, want: []string{"MaxHold 9s", "TTL 10s"}},
		"MaxHold negative":       {store: store, o: rowlock.Options{MaxHold: -1}, want: []string{"MaxHold -1ns"}},
		"ReleaseWait negative":   {store: store, o: rowlock.Options{ReleaseWait: -1}, want: []string{"ReleaseWait"}},
		"LongHold absurd":        {store: store, o: rowlock.Options{LongHold: 1 << 62}, want: []string{"LongHold", "8784h"}},
		"owner longer than kept": {store: store, o: rowlock.Options{Owner: strings.Repeat("o", 256)}, want: []string{"256", "255"}},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := rowlock.New(tc.store, tc.o)
			if !errors.Is(err, rowlock.ErrInvalid) || c != nil {
				t.Fatalf("New = %v, %v", c, err)
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not say %q", err, want)
				}
			}
		})
	}
}

// linesAndQueue is a store that says that it has both ways to wait, or neither.
func linesAndQueue(both bool) *faultStore {
	f := newFaultStore()
	f.limits = func(l *driver.Limits) { l.Line, l.Queue = both, both }
	return f
}

// TestP9_BadCall: a bad key or option of a call is an error before anything is sent.
func TestP9_BadCall(t *testing.T) {
	ctx := context.Background()
	for name, tc := range map[string]struct {
		key  string
		opts []rowlock.Option
		want []string
	}{
		"empty key":            {"", nil, []string{"empty", "255"}},
		"long key":             {strings.Repeat("k", 256), nil, []string{"256", "255"}},
		"TTL too short":        {"k", []rowlock.Option{rowlock.TTL(time.Millisecond)}, []string{`"k"`, "1ms", "1s"}},
		"MaxHold under TTL":    {"k", []rowlock.Option{rowlock.MaxHold(time.Second)}, []string{"MaxHold 1s", "TTL 30s"}},
		"MinHold over it":      {"k", []rowlock.Option{rowlock.MaxHold(time.Hour), rowlock.MinHold(2 * time.Hour)}, []string{"MinHold 2h", "MaxHold 1h"}},
		"MinHold negative":     {"k", []rowlock.Option{rowlock.MinHold(-1)}, []string{"MinHold -1ns"}},
		"MinHold absurd":       {"k", []rowlock.Option{rowlock.MinHold(1 << 62)}, []string{"MinHold"}},
		"TTL under the margin": {"k", []rowlock.Option{rowlock.TTL(2 * time.Second)}, []string{"Margin 2s", "TTL 2s"}},
	} {
		t.Run(name, func(t *testing.T) {
			store := withLimits(driver.Limits{Batch: 10, MinTTL: time.Second})
			o := rowlock.Options{}
			if strings.Contains(name, "margin") {
				o.Margin = 2 * time.Second
			}
			c, err := rowlock.New(store, o)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close(ctx)
			_, err1 := c.Acquire(ctx, tc.key, tc.opts...)
			_, err2 := c.TryAcquire(ctx, tc.key, tc.opts...)
			err3 := rowlock.Do(ctx, c, tc.key, never, tc.opts...)
			for _, err := range []error{err1, err2, err3} {
				if !errors.Is(err, rowlock.ErrInvalid) {
					t.Fatalf("error %v", err)
				}
				for _, want := range tc.want {
					if !strings.Contains(err.Error(), want) {
						t.Errorf("%q does not say %q", err, want)
					}
				}
			}
			if n := store.Statements(); n != 0 {
				t.Errorf("%d statements were sent", n)
			}
			if len(tc.opts) == 0 {
				if _, err := c.Inspect(ctx, tc.key); !errors.Is(err, rowlock.ErrInvalid) {
					t.Errorf("Inspect = %v", err)
				}
			}
		})
	}
}

func never(context.Context, *rowlock.Lease) error { panic("called without a lease") }

// nobody is a Locker that breaks its contract.
type nobody struct{}

func (nobody) Acquire(context.Context, string, ...rowlock.Option) (*rowlock.Lease, error) {
	return nil, nil
}
func (nobody) TryAcquire(context.Context, string, ...rowlock.Option) (*rowlock.Lease, error) {
	return nil, nil
}

// TestP9_NilArguments: what is nil is named before anything is sent.
func TestP9_NilArguments(t *testing.T) {
	ctx := context.Background()
	store := memory.New()
	c := newClient(t, store, rowlock.Options{})
	var none context.Context
	var noClient *rowlock.Client
	var noLease *rowlock.Lease
	lease := acquire(t, c, "held")
	sent := store.Statements()
	for name, tc := range map[string]struct {
		do   func() error
		want string
	}{
		"option":            {func() error { _, err := c.Acquire(ctx, "k", rowlock.NoWait(), nil); return err }, "option"},
		"option of a try":   {func() error { _, err := c.TryAcquire(ctx, "k", nil); return err }, "option"},
		"function of Do":    {func() error { return rowlock.Do(ctx, c, "k", nil) }, "function"},
		"Locker of Do":      {func() error { return rowlock.Do(ctx, nil, "k", never) }, "Locker"},
		"Client of Do":      {func() error { return rowlock.Do(ctx, noClient, "k", never) }, "Client"},
		"Locker without":    {func() error { return rowlock.Do(ctx, nobody{}, "k", never) }, "nobody"},
		"Client":            {func() error { _, err := noClient.TryAcquire(ctx, "k"); return err }, "Client"},
		"Client of Inspect": {func() error { _, err := noClient.Inspect(ctx, "k"); return err }, "Client"},
		"ctx":               {func() error { _, err := c.Acquire(none, "k"); return err }, "context"},
		"ctx of a try":      {func() error { _, err := c.TryAcquire(none, "k"); return err }, "context"},
		"ctx of Do":         {func() error { return rowlock.Do(none, c, "k", never) }, "context"},
		"ctx of Inspect":    {func() error { _, err := c.Inspect(none, "k"); return err }, "context"},
		"ctx of Renew":      {func() error { return lease.Renew(none) }, "context"},
		"ctx of Close":      {func() error { return c.Close(none) }, "context"},
		"store":             {func() error { _, err := rowlock.New(nil, rowlock.Options{}); return err }, "store"},
		"typed store": {func() error {
			var s *memory.Store
			_, err := rowlock.New(s, rowlock.Options{})
			return err
		}, "*memory.Store"},
		"lease of Renew":      {func() error { return noLease.Renew(ctx) }, "Lease"},
		"lease of Err":        {func() error { return noLease.Err() }, "Lease"},
		"lease of BeginGuard": {func() error { _, err := rowlock.BeginGuard(noLease, store); return err }, "Lease"},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if p := recover(); p != nil {
					t.Errorf("P9: panic: %v", p)
				}
			}()
			if err := tc.do(); !errors.Is(err, rowlock.ErrInvalid) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("P9: %v, want ErrInvalid and %q", err, tc.want)
			}
		})
	}
	if n := store.Statements() - sent; n != 0 {
		t.Errorf("P9: %d statements were sent", n)
	}
	if err := noLease.Release(ctx); err != nil { // as a defer after a failed Acquire does
		t.Errorf("Release of no lease = %v", err)
	}
	if err := noClient.Close(ctx); err != nil { // as a defer after a failed New does
		t.Errorf("Close of no client = %v", err)
	}
	if s := noClient.Stats(); s != (rowlock.Stats{}) {
		t.Errorf("Stats of no client: %+v", s)
	}
	if err := lease.Context(none).Err(); err != nil {
		t.Errorf("a context without a parent: %v", err)
	}
	if err := lease.Release(none); err != nil {
		t.Errorf("Release with a nil context = %v", err)
	}
}
