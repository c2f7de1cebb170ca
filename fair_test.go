package rowlock_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
)

// queue is callers that wait for "k" one behind the other, and the order in which they got it.
type queue struct {
	t  *testing.T
	wg sync.WaitGroup

	mu    sync.Mutex
	order []string
}

// join has c wait for "k", and returns when its ticket is in the database.
func (q *queue) join(c *rowlock.Client, name string, hold time.Duration, opts ...rowlock.Option) {
	q.t.Helper()
	q.wg.Go(func() {
		l, err := c.Acquire(context.Background(), "k", append(opts, rowlock.Fair())...)
		if err != nil {
			q.t.Errorf("%s: %v", name, err)
			return
		}
		q.mu.Lock()
		q.order = append(q.order, name)
		q.mu.Unlock()
		time.Sleep(hold)
		if err := l.Release(context.Background()); err != nil {
			q.t.Errorf("%s: %v", name, err)
		}
	})
	synctest.Wait()
	time.Sleep(time.Millisecond)
}

// want checks the order.
func (q *queue) want(names ...string) {
	q.t.Helper()
	q.wg.Wait()
	if !slices.Equal(q.order, names) {
		q.t.Errorf("P23: served in the order %v, want %v", q.order, names)
	}
}

// TestP23_ProgramsInTheOrderInWhichTheyAsked.
func TestP23_ProgramsInTheOrderInWhichTheyAsked(t *testing.T) {
	for _, mode := range []struct {
		name  string
		opts  []rowlock.Option
		slots int
	}{{"exclusive", nil, 1}, {"slots", []rowlock.Option{rowlock.Slots(2)}, 2}} {
		t.Run(mode.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, q := newFaultStore(), &queue{t: t}
				var held []*rowlock.Lease
				for range mode.slots {
					held = append(held, acquire(t, newClient(t, f), "k", append(mode.opts, rowlock.Fair())...))
				}
				var names []string
				for i := range 20 {
					names = append(names, fmt.Sprint(i))
					q.join(newClient(t, f), names[i], 5*time.Millisecond, mode.opts...)
					time.Sleep(time.Duration(i*37%50) * time.Millisecond)
				}
				start := time.Now()
				for _, l := range held {
					l.Release(context.Background())
				}
				q.want(names...)
				if took := time.Since(start); took > 20*100*time.Millisecond {
					t.Errorf("20 programs were served in %v", took)
				}
			})
		})
	}
}

// TestP23_NewcomersDoNotPass: neither one that waits nor one that tries, also while the key
// is free.
func TestP23_NewcomersDoNotPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		waiting := driver.Ticket{Key: "k", ID: driver.HoldID{1}}
		if _, err := f.PutTickets(context.Background(), []driver.Ticket{waiting}); err != nil {
			t.Fatal(err)
		}
		c := newClient(t, f)
		_, err := c.TryAcquire(context.Background(), "k", rowlock.Fair())
		var held *rowlock.HeldError
		if !errors.As(err, &held) || held.Waiting != 1 || held.Left != 0 {
			t.Errorf("P23: TryAcquire while another waits: %v, want ErrHeld that tells of it", err)
		}
		start := time.Now()
		l := acquire(t, c, "k", rowlock.Fair())
		if waited := time.Since(start); waited < driver.TicketTime-time.Millisecond {
			t.Errorf("P23: passed a live ticket after %v", waited)
		}
		l.Release(context.Background())
		if l, err := c.TryAcquire(context.Background(), "k", rowlock.Fair()); err != nil {
			t.Errorf("TryAcquire while nobody waits: %v", err)
		} else {
			l.Release(context.Background())
		}
	})
}

// TestP23_TheDeadCostOneTicket: however many die in the line, those behind wait for no longer
// than one ticket lasts.
func TestP23_TheDeadCostOneTicket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, q := newFaultStore(), &queue{t: t}
		held := acquire(t, newClient(t, f), "k", rowlock.Fair())
		q.join(newClient(t, f), "first", time.Millisecond)
		for i := range 5 {
			if _, err := f.PutTickets(context.Background(), []driver.Ticket{{Key: "k", ID: driver.HoldID{1, byte(i)}}}); err != nil {
				t.Fatal(err)
			}
			q.join(newClient(t, f), fmt.Sprint("behind ", i), time.Millisecond)
		}
		start := time.Now()
		held.Release(context.Background())
		q.want("first", "behind 0", "behind 1", "behind 2", "behind 3", "behind 4")
		if took := time.Since(start); took > driver.TicketTime+6*100*time.Millisecond {
			t.Errorf("P23: five dead waiters cost %v", took)
		}
	})
}

// TestP23_ACallerInItsProgramsLine: the callers of a program are served by its tickets: one by
// each, and the next is put behind those who wait then. A handoff in memory is in that order
// too.
func TestP23_ACallerInItsProgramsLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, q := newFaultStore(), &queue{t: t}
		a, b := newClient(t, f), newClient(t, f)
		held := acquire(t, a, "k", rowlock.Fair())
		q.join(a, "a1", 5*time.Millisecond)
		q.join(b, "b1", 5*time.Millisecond)
		q.join(a, "a2", 5*time.Millisecond)
		q.join(b, "b2", 5*time.Millisecond)
		q.join(a, "a3", 5*time.Millisecond)
		releases := len(f.seen("release"))
		held.Release(context.Background())
		if len(f.seen("release")) != releases {
			t.Error("released to the database, though its own program is first in the line")
		}
		q.want("a1", "b1", "a2", "b2", "a3")
	})
}

// TestP23_NoHandoffPastOthers: with one behind the other, a program whose callers come again at
// once passes nobody.
func TestP23_NoHandoffPastOthers(t *testing.T) {
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

// TestP23_WhoGivesUpKeepsNobodyWaiting: its ticket goes at once, and so do those of a client
// that is closed.
func TestP23_WhoGivesUpKeepsNobodyWaiting(t *testing.T) {
	for _, leave := range []string{"context", "close"} {
		t.Run(leave, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFaultStore()
				held := acquire(t, newClient(t, f), "k", rowlock.Fair())
				c, err := rowlock.New(f, rowlock.Options{})
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(context.Background())
				left := make(chan error)
				go func() {
					_, err := c.Acquire(ctx, "k", rowlock.Fair())
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
				if lines, err := f.Store.Lines(context.Background(), []string{"k"}); err != nil || lines[0].Waiting != 0 {
					t.Errorf("P23: %+v, %v: the ticket is still there", lines, err)
				}
				held.Release(context.Background())
			})
		})
	}
}

// TestP23_TheFirstForCertainDoesNotLook: a client whose ticket is alive, and before which nobody
// stood when that was put or renewed, asks no more who does. One whose ticket is over does.
func TestP23_TheFirstForCertainDoesNotLook(t *testing.T) {
	for _, over := range []bool{false, true} {
		t.Run(fmt.Sprintf("over %v", over), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFaultStore()
				held := acquire(t, newClient(t, f), "k", rowlock.Fair())
				q := &queue{t: t}
				q.join(newClient(t, f), "next", 0)
				time.Sleep(driver.TicketTime)
				if over {
					f.set(func(c call) (v verdict) {
						if c.op == "put" {
							v.err = errors.New("no answer")
						}
						return v
					})
					time.Sleep(2 * driver.TicketTime)
				}
				held.Release(context.Background())
				q.want("next")
				asked := f.seen("acquire")
				if last := asked[len(asked)-1].reqs[0]; last.Fair != over || !asked[0].reqs[0].Fair {
					t.Errorf("P23: the attempt of the first asks who stands before it: %v, want %v", last.Fair, over)
				}
			})
		})
	}
}

// TestP23_APlaceOutlivesItsTicket: a program that could not renew may be passed, and has its
// place again when it can.
func TestP23_APlaceOutlivesItsTicket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, good, q := newFaultStore(), newFaultStore(), &queue{t: t}
		good.Store = f.Store
		held := acquire(t, newClient(t, good), "k", rowlock.Fair())
		cut := newClient(t, f)
		q.join(cut, "cut", 5*time.Millisecond)
		q.join(newClient(t, good), "second", 900*time.Millisecond)
		q.join(newClient(t, good), "third", 5*time.Millisecond)
		f.set(func(c call) verdict {
			if c.op == "put" || c.op == "acquire" {
				return verdict{err: errors.New("no way to the server")}
			}
			return verdict{}
		})
		time.Sleep(2 * driver.TicketTime)
		held.Release(context.Background())
		time.Sleep(200 * time.Millisecond) // the second has it
		f.set(nil)
		q.want("second", "cut", "third")
	})
}

// TestP23_NoHandoffOnATicketThatIsOver: a program that could not renew its ticket is not sure any
// more that it is the first: one that stands before it and could not renew its own may be back.
func TestP23_NoHandoffOnATicketThatIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, holder, q := newFaultStore(), newFaultStore(), &queue{t: t}
		holder.Store = first.Store
		noWay := on("put", verdict{err: errors.New("no way to the server")})
		a := newClient(t, holder)
		held := acquire(t, a, "k", rowlock.Fair())
		q.join(newClient(t, first), "first", 5*time.Millisecond)
		first.set(noWay)
		time.Sleep(driver.TicketTime + 100*time.Millisecond)
		q.join(a, "second", 5*time.Millisecond)
		holder.set(noWay)
		first.set(nil)
		time.Sleep(2 * driver.TicketTime)
		held.Release(context.Background())
		q.want("first", "second")
	})
}

// TestP23_TicketsOfAClientGoTogether: many keys are one call, three times a second, and what
// a waiting program sends stays within its bound (N8).
func TestP23_TicketsOfAClientGoTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n, seconds = 50, 10
		f := newFaultStore()
		holder, c := newClient(t, f), newClient(t, f)
		ctx, cancel := context.WithCancel(context.Background())
		var wg sync.WaitGroup
		for i := range n {
			key := fmt.Sprint("k", i)
			acquire(t, holder, key, rowlock.Fair())
			if i%2 == 0 { // another stands before
				other := newClient(t, f.Store)
				wg.Go(func() { other.Acquire(ctx, key, rowlock.Fair()) })
			}
			wg.Go(func() { c.Acquire(ctx, key, rowlock.Fair()) })
		}
		time.Sleep(5 * time.Second)
		before, start := len(f.seen("put")), len(f.all())
		time.Sleep(seconds * time.Second)
		puts := f.seen("put")[before:]
		if len(puts) < 2*seconds || len(puts) > 4*seconds {
			t.Errorf("%d calls put tickets in %d s, want three a second", len(puts), seconds)
		}
		for _, p := range puts {
			if len(p.keys) != n {
				t.Errorf("a call renews %d tickets of %d", len(p.keys), n)
				break
			}
		}
		sent := 0
		for _, call := range f.all()[start:] {
			switch call.op {
			case "renew":
			case "put": // a write and a read
				sent += 2
			default:
				sent++
			}
		}
		if sent > 22*seconds {
			t.Errorf("N8: %d statements in %d s", sent, seconds)
		}
		cancel()
		wg.Wait()
	})
}

// TestP25_NoTicketsWithoutFair: who does not use Fair sends nothing about tickets.
func TestP25_NoTicketsWithoutFair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		a, b := newClient(t, f), newClient(t, f)
		two(t, a, 100*time.Millisecond, nil, nil)
		held := make(chan *rowlock.Lease)
		go func() { defer close(held); held <- acquire(t, b, "k") }()
		time.Sleep(time.Second)
		if n := len(f.seen("put")) + len(f.seen("remove")); n != 0 {
			t.Errorf("P25: %d calls about tickets", n)
		}
		for _, call := range f.seen("acquire") {
			for _, r := range call.reqs {
				if r.Fair || r.Seq != 0 {
					t.Errorf("P25: %+v", r)
				}
			}
		}
		go a.Close(context.Background())
		(<-held).Release(context.Background())
	})
}

// TestTicketsThatFail: what will fail again is told to those who wait, and what may pass is not.
func TestTicketsThatFail(t *testing.T) {
	for _, lasting := range []bool{true, false} {
		t.Run(fmt.Sprint("lasting ", lasting), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFaultStore()
				c := newClient(t, f)
				held := acquire(t, newClient(t, f.Store), "k", rowlock.Fair())
				cause := errors.New("no tickets today")
				f.set(on("put", verdict{err: &driver.Error{Lasting: lasting, Err: cause}}))
				ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
				defer cancel()
				start := time.Now()
				var wg sync.WaitGroup
				for range 3 {
					wg.Go(func() {
						if _, err := c.Acquire(ctx, "k", rowlock.Fair()); !errors.Is(err, cause) && (lasting || !errors.Is(err, rowlock.ErrHeld)) {
							t.Errorf("%v, want the cause", err)
						}
					})
				}
				wg.Wait()
				if took := time.Since(start); lasting && took > 5*time.Second || !lasting && took < time.Minute {
					t.Errorf("the callers were answered after %v", took)
				}
				f.set(nil)
				held.Release(context.Background())
			})
		})
	}
}

// TestFairInGroups: the waits of AcquireAll for each key are in order.
func TestFairInGroups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, q := newFaultStore(), &queue{t: t}
		held := acquire(t, newClient(t, f), "k", rowlock.Fair())
		q.join(newClient(t, f), "first", 5*time.Millisecond)
		c := newClient(t, f)
		q.wg.Go(func() {
			g, err := c.AcquireAll(context.Background(), rowlock.Keys("z", "k", "a"), rowlock.Fair())
			if err != nil {
				t.Error(err)
				return
			}
			q.mu.Lock()
			q.order = append(q.order, "group")
			q.mu.Unlock()
			time.Sleep(5 * time.Millisecond)
			g.Release(context.Background())
		})
		synctest.Wait()
		time.Sleep(time.Millisecond)
		q.join(newClient(t, f), "third", 5*time.Millisecond)
		if g, err := newClient(t, f).TryAcquireAll(context.Background(), rowlock.Keys("k", "other"), rowlock.Fair()); !errors.Is(err, rowlock.ErrHeld) {
			t.Errorf("TryAcquireAll while others wait: %v, %v", g, err)
		}
		held.Release(context.Background())
		q.want("first", "group", "third")
	})
}

// plain is a Store without abilities.
type plain struct{ driver.Store }

// TestFairRefused: what cannot be served in order says so, before anything is sent.
func TestFairRefused(t *testing.T) {
	f := newFaultStore()
	for _, tc := range []struct {
		name  string
		store driver.Store
		opts  []rowlock.Option
		want  string
	}{
		{"with Shared", f, []rowlock.Option{rowlock.Shared(), rowlock.Fair()}, "Fair with Shared"},
		{"a store without tickets", plain{f}, []rowlock.Option{rowlock.Fair()}, "rowlock_test.plain"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := newClient(t, tc.store)
			_, err := c.Acquire(context.Background(), "k", tc.opts...)
			_, tried := c.TryAcquire(context.Background(), "k", tc.opts...)
			_, all := c.AcquireAll(context.Background(), rowlock.Keys("k"), tc.opts...)
			for _, err := range []error{err, tried, all} {
				if !errors.Is(err, rowlock.ErrNotSupported) || !strings.Contains(err.Error(), tc.want) {
					t.Errorf("%v, want ErrNotSupported that names %q", err, tc.want)
				}
			}
			if n := len(f.seen("acquire")); n > 0 {
				t.Errorf("%d statements were sent", n)
			}
		})
	}
}
