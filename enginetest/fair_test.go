package enginetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/memory"
)

// queue is callers that wait for "k" one behind the other, and the order in which they got it: that of their tokens.
type queue struct {
	t  *testing.T
	wg sync.WaitGroup

	mu  sync.Mutex
	got map[int64]string // by token
}

// join has c wait for "k", and returns when its program stands in the line.
func (q *queue) join(c *rowlock.Client, name string, hold time.Duration, opts ...rowlock.Option) {
	q.t.Helper()
	q.wg.Go(func() {
		l, err := c.Acquire(context.Background(), "k", opts...)
		if err != nil {
			q.t.Errorf("%s: %v", name, err)
			return
		}
		q.served(name, l)
		time.Sleep(hold)
		if err := l.Release(context.Background()); err != nil {
			q.t.Errorf("%s: %v", name, err)
		}
	})
	synctest.Wait()
	time.Sleep(time.Millisecond)
}

func (q *queue) served(name string, l *rowlock.Lease) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.got == nil {
		q.got = make(map[int64]string)
	}
	q.got[l.Token()] = name
}

// want checks the order.
func (q *queue) want(promise string, names ...string) {
	q.t.Helper()
	q.wg.Wait()
	var order []string
	for _, token := range slices.Sorted(maps.Keys(q.got)) {
		order = append(order, q.got[token])
	}
	if !slices.Equal(order, names) {
		q.t.Errorf("%s: served in the order %v, want %v", promise, order, names)
	}
}

// TestP29_ProgramsInTheOrderInWhichTheyAsked: with and without Fair.
func TestP29_ProgramsInTheOrderInWhichTheyAsked(t *testing.T) {
	for _, mode := range []struct {
		name  string
		opts  []rowlock.Option
		slots int
	}{
		{"exclusive", nil, 1}, {"slots", []rowlock.Option{rowlock.Slots(2)}, 2},
		{"fair", []rowlock.Option{rowlock.Fair()}, 1}, {"fair slots", []rowlock.Option{rowlock.Slots(2), rowlock.Fair()}, 2},
	} {
		t.Run(mode.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const hold = 100 * time.Millisecond
				f, q := newFaultStore(), &queue{t: t}
				var held []*rowlock.Lease
				for range mode.slots {
					held = append(held, acquire(t, newClient(t, f), "k", mode.opts...))
				}
				var names []string
				for i := range 20 {
					names = append(names, fmt.Sprint(i))
					q.join(newClient(t, f), names[i], hold, mode.opts...)
					time.Sleep(time.Duration(i*37%50) * time.Millisecond)
				}
				start := time.Now()
				for _, l := range held { // passes follow each other, so that no two have the same token
					l.Release(context.Background())
					time.Sleep(hold / 2)
				}
				q.want("P29", names...)
				if took := time.Since(start); took > 20*(hold+50*time.Millisecond) {
					t.Errorf("20 programs were served in %v", took)
				}
			})
		})
	}
}

// TestP29_TryAcquirePassesNobody: also while the key is free, and another stands for it.
func TestP29_TryAcquirePassesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		dead := driver.Request{Key: "k", ID: driver.HoldID{1}, TTL: time.Minute, Stand: true, EntryTime: driver.EntryTime, Claim: time.Second}
		first := acquire(t, newClient(t, f), "k")
		if r, err := f.Store.Acquire(context.Background(), []driver.Request{dead}); err != nil || r[0].Place != 1 {
			t.Fatalf("%+v, %v", r, err)
		}
		first.Release(context.Background())
		c := newClient(t, f)
		_, err := c.TryAcquire(context.Background(), "k")
		if !errors.Is(err, rowlock.ErrHeld) {
			t.Errorf("P29: TryAcquire while another was passed the key: %v", err)
		}
		start := time.Now()
		l := acquire(t, c, "k")
		if waited := time.Since(start); waited < dead.Claim-time.Millisecond || waited > dead.Claim+200*time.Millisecond {
			t.Errorf("P29: waited %v for one that does not look, want its claim of %v", waited, dead.Claim)
		}
		l.Release(context.Background())
	})
}

// TestP23_OneCallerATurn: with Fair the key goes on to the next program after one caller, whose program stands again, behind those who wait then.
func TestP23_OneCallerATurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, q := newFaultStore(), &queue{t: t}
		a, b := newClient(t, f), newClient(t, f)
		held := acquire(t, a, "k", rowlock.Fair())
		for _, next := range []struct {
			program *rowlock.Client
			name    string
		}{{a, "a1"}, {b, "b1"}, {a, "a2"}, {b, "b2"}, {a, "a3"}} {
			q.join(next.program, next.name, 5*time.Millisecond, rowlock.Fair())
		}
		held.Release(context.Background())
		q.want("P23", "b1", "a1", "b2", "a2", "a3")
	})
}

// TestP23_ProgramsTakeTurns: a program whose callers come again at once passes nobody.
func TestP23_ProgramsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		var mu sync.Mutex
		var order []int
		var wg sync.WaitGroup
		for i := range 3 {
			c := newClient(t, f)
			for range 4 {
				wg.Go(func() {
					for range 10 {
						l := acquire(t, c, "k", rowlock.Fair())
						mu.Lock()
						order = append(order, i)
						mu.Unlock()
						time.Sleep(5 * time.Millisecond)
						l.Release(context.Background())
					}
				})
			}
			time.Sleep(time.Millisecond)
		}
		wg.Wait()
		last := map[int]int{}
		for n, i := range order[:len(order)-12] {
			if since := n - last[i]; n > 12 && since > 5 {
				t.Errorf("P23: program %d had the key after %d others: %v", i, since, order)
			}
			last[i] = n
		}
	})
}

// TestP29_WhoGivesUpKeepsNobodyWaiting: its place goes at once, and so does that of a client that is closed.
func TestP29_WhoGivesUpKeepsNobodyWaiting(t *testing.T) {
	for _, leave := range []string{"context", "close"} {
		t.Run(leave, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFaultStore()
				held := acquire(t, newClient(t, f), "k")
				c, err := rowlock.New(f, rowlock.Options{})
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(context.Background())
				left := make(chan error)
				go func() {
					_, err := c.Acquire(ctx, "k")
					left <- err
				}()
				synctest.Wait()
				time.Sleep(10 * time.Millisecond)
				if info, _ := c.Inspect(context.Background(), "k"); info.Waiting != 1 {
					t.Fatalf("%+v, want one that waits", info)
				}
				if leave == "context" {
					cancel()
					if err := <-left; !errors.Is(err, context.Canceled) || !errors.Is(err, rowlock.ErrHeld) {
						t.Errorf("a caller that gave up: %v", err)
					}
					synctest.Wait()
				}
				go c.Close(context.Background())
				if leave == "close" {
					if err := <-left; !errors.Is(err, rowlock.ErrClosed) {
						t.Errorf("a caller of a closed client: %v", err)
					}
				}
				synctest.Wait()
				cancel()
				if infos, err := f.Store.Inspect(context.Background(), []string{"k"}); err != nil || infos[0].Waiting != 0 {
					t.Errorf("P29: %+v, %v: it still stands", infos, err)
				}
				held.Release(context.Background())
			})
		})
	}
}

// TestFairInGroups: the waits of AcquireAll for each key are in order.
func TestFairInGroups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, q, fair := newFaultStore(), &queue{t: t}, rowlock.Fair()
		held := acquire(t, newClient(t, f), "k", fair)
		q.join(newClient(t, f), "first", 5*time.Millisecond, fair)
		c := newClient(t, f)
		q.wg.Go(func() {
			g, err := c.AcquireAll(context.Background(), rowlock.Keys("z", "k", "a"), fair)
			if err != nil {
				t.Error(err)
				return
			}
			q.served("group", g.Leases()[1])
			time.Sleep(5 * time.Millisecond)
			g.Release(context.Background())
		})
		synctest.Wait()
		time.Sleep(time.Millisecond)
		q.join(newClient(t, f), "third", 5*time.Millisecond, fair)
		if g, err := newClient(t, f).TryAcquireAll(context.Background(), rowlock.Keys("k", "other"), fair); !errors.Is(err, rowlock.ErrHeld) {
			t.Errorf("TryAcquireAll while others wait: %v, %v", g, err)
		}
		held.Release(context.Background())
		q.want("P23", "first", "group", "third")
	})
}

// TestFairRefused: what cannot be served in order says so, before anything is sent.
func TestFairRefused(t *testing.T) {
	f, q := newFaultStore(), &queueStore{Store: memory.New(), turn: make(chan struct{}), waiting: make(chan struct{}, 10)}
	for _, tc := range []struct {
		name  string
		store driver.Store
		sent  func() int
		opts  []rowlock.Option
		want  []string
	}{
		{"with Shared", f, func() int { return len(f.all()) }, []rowlock.Option{rowlock.Shared(), rowlock.Fair()}, []string{"Fair with Shared"}},
		{"where the server has the queue", q, func() int { return int(q.Statements()) }, []rowlock.Option{rowlock.Fair()}, []string{"Fair", "VersionColumn", "UniqueInsert", "MongoDB"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := newClient(t, tc.store)
			_, err := c.Acquire(context.Background(), "k", tc.opts...)
			_, tried := c.TryAcquire(context.Background(), "k", tc.opts...)
			_, all := c.AcquireAll(context.Background(), rowlock.Keys("k"), tc.opts...)
			for _, err := range []error{err, tried, all} {
				if !errors.Is(err, rowlock.ErrNotSupported) {
					t.Errorf("%v, want ErrNotSupported", err)
				}
				for _, want := range tc.want {
					if !strings.Contains(err.Error(), want) {
						t.Errorf("%v, want an error that names %q", err, want)
					}
				}
			}
			if n := tc.sent(); n > 0 {
				t.Errorf("%d statements were sent", n)
			}
		})
	}
}
