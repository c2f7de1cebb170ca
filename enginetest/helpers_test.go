package enginetest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
)

// newClient is a client of store that is closed at the end of the test. Faults of a
// faultStore are over then.
func newClient(t *testing.T, store driver.Store, o ...rowlock.Options) *rowlock.Client {
	t.Helper()
	o = append(o, rowlock.Options{})
	c, err := rowlock.New(store, o[0])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if f, ok := store.(*faultStore); ok {
			f.set(nil)
		}
		if err := c.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return c
}

// long bounds what a test waits for, most of them by a clock that is not real: only something wrong takes so long.
const long = 2 * time.Hour

// acquire gets key, or ends the test, or the goroutine that waits for it.
func acquire(t *testing.T, c *rowlock.Client, key string, opts ...rowlock.Option) *rowlock.Lease {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), long)
	defer cancel()
	l, err := c.Acquire(ctx, key, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// reason is why a lease was lost.
func reason(err error) rowlock.Reason {
	var lost *rowlock.LostError
	if errors.As(err, &lost) {
		return lost.Reason
	}
	return ""
}

// two gets two leases of "k" in a row from c, whose second caller waits while the
// first holds for the given time.
func two(t *testing.T, c *rowlock.Client, hold time.Duration, first, second []rowlock.Option) (a, b *rowlock.Lease) {
	t.Helper()
	a = acquire(t, c, "k", first...)
	got := make(chan *rowlock.Lease)
	go func() { defer close(got); got <- acquire(t, c, "k", second...) }()
	synctest.Wait()
	time.Sleep(hold)
	if err := a.Release(context.Background()); err != nil {
		t.Fatal(err)
	}
	return a, <-got
}

// tenth is n, and in the short tier a tenth of it: what thousands of leases cost is the processor.
func tenth(n int) int {
	if testing.Short() {
		return n / 10
	}
	return n
}

// many takes n leases, with TTLs of 20, 25, … 40 s in turn if mixed.
func many(t *testing.T, c *rowlock.Client, n int, mixed bool) (leases []*rowlock.Lease, ttls []time.Duration) {
	t.Helper()
	for i := range n {
		ttl := 30 * time.Second
		if mixed {
			ttl = time.Duration(20+5*(i%5)) * time.Second
		}
		leases = append(leases, acquire(t, c, fmt.Sprint("k", i), rowlock.TTL(ttl)))
		ttls = append(ttls, ttl)
		time.Sleep(time.Millisecond) // they are taken over ten seconds
	}
	return leases, ttls
}

// cycles takes and releases n keys at once, and returns the statements of each op.
func cycles(t *testing.T, c *rowlock.Client, f *faultStore, n int) (acquires, releases []call) {
	t.Helper()
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			l := acquire(t, c, fmt.Sprint("k", i))
			if err := l.Release(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	return f.seen("acquire"), f.seen("release")
}

// free fails the test unless nobody holds key.
func free(t *testing.T, f *faultStore, key string) {
	t.Helper()
	infos, err := f.Store.Inspect(context.Background(), []string{key})
	if err != nil || infos[0].Held {
		t.Errorf("%q is held: %+v, %v", key, infos[0], err)
	}
}

// taken fails unless key is held for other programs.
func taken(t *testing.T, f *faultStore, key string) {
	t.Helper()
	l, err := newClient(t, f.Store, rowlock.Options{}).TryAcquire(context.Background(), key)
	if !errors.Is(err, rowlock.ErrHeld) {
		t.Errorf("P12: TryAcquire of %q by another program: %v, want ErrHeld: a function of Do still runs under it", key, err)
	}
	if l != nil {
		l.Release(context.Background())
	}
}

// cutShort is a client whose Close will fail.
func cutShort(t *testing.T, f *faultStore) *rowlock.Client {
	t.Helper()
	c, err := rowlock.New(f, rowlock.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// wrap is a Locker around another.
type wrap struct{ rowlock.Locker }

// bareStore has no ability but the clock, and the lines.
type bareStore struct{ driver.Store }

func (s bareStore) Now() time.Duration { return s.Store.(driver.Clock).Now() }

func (s bareStore) Look(ctx context.Context, entries []driver.Entry) ([]driver.View, error) {
	return s.Store.(driver.Liner).Look(ctx, entries)
}

// withLimits is a fault store with these limits.
func withLimits(l driver.Limits) *faultStore {
	f := newFaultStore()
	l.Line = true
	f.limits = func(own *driver.Limits) { *own = l }
	return f
}

// failRenewals is a fault that answers Unknown to the renewal of some keys. n is how often
// the key was asked for before.
func failRenewals(fails func(key string, n int) bool) func(call) verdict {
	var mu sync.Mutex
	asked := make(map[string]int)
	return func(c call) verdict {
		if c.op != "renew" {
			return verdict{}
		}
		return verdict{change: func(results []driver.Result) {
			mu.Lock()
			defer mu.Unlock()
			for i, key := range c.keys {
				if i < len(results) && fails(key, asked[key]) {
					results[i] = driver.Result{Err: errors.New("too large, or blocked")}
				}
				asked[key]++
			}
		}}
	}
}

// narrow is a fault that makes renewals and releases take one of few connections in turn,
// each for as long as a commit takes.
func narrow(connections int, commit time.Duration) func(call) verdict {
	free := make(chan struct{}, connections)
	return func(c call) verdict {
		if c.op != "renew" && c.op != "release" {
			return verdict{}
		}
		return verdict{before: func(ctx context.Context) error {
			select {
			case free <- struct{}{}:
			case <-ctx.Done():
				return &driver.Error{NotApplied: true, Err: ctx.Err()}
			}
			defer func() { <-free }()
			return sleep(ctx, commit)
		}}
	}
}

// logged is a slog.Handler that keeps what it gets, and does on each record what a
// test wants.
type logged struct {
	least slog.Level
	on    func(context.Context, slog.Record) // may be nil

	mu      sync.Mutex
	records []slog.Record
	traces  []any // by record: what its context has under traceID
}

type traceID struct{}

func (h *logged) Enabled(_ context.Context, l slog.Level) bool { return l >= h.least }
func (h *logged) WithAttrs([]slog.Attr) slog.Handler           { return h }
func (h *logged) WithGroup(string) slog.Handler                { return h }

func (h *logged) Handle(ctx context.Context, r slog.Record) error {
	if h.on != nil {
		h.on(ctx, r)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.records = append(h.records, r)
	h.traces = append(h.traces, ctx.Value(traceID{}))
	return nil
}

// lines lists the records of a message as text: attributes in the order in which they
// were given.
func (h *logged) lines(message string) (lines []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range h.records {
		if r.Message == message {
			line := r.Level.String()
			r.Attrs(func(a slog.Attr) bool { line += " " + a.String(); return true })
			lines = append(lines, line)
		}
	}
	return lines
}

// sum adds up an attribute of the records of a message.
func (h *logged) sum(message, attr string) (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range h.records {
		if r.Message == message {
			r.Attrs(func(a slog.Attr) bool {
				if a.Key == attr {
					n += int(a.Value.Int64())
				}
				return true
			})
		}
	}
	return n
}

func (h *logged) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.records)
}

func logTo(h *logged, o ...rowlock.Options) rowlock.Options {
	o = append(o, rowlock.Options{})
	o[0].Logger = slog.New(h)
	return o[0]
}
