package enginetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/memory"
)

// What lasts at a first use may be mended in a minute: a password that is being rotated, a table that a restore replaces. The loops of
// this file have worked before.

const (
	refusedLoop = "the database refuses what a loop needs; mend that: the loop waits, and goes on"
	servedLoop  = "the database serves the loops again"
)

// errRotated is what a server says that refuses the user.
var errRotated = &driver.Error{Lasting: true, NotApplied: true, Err: errors.New("the server refused the user or password")}

// refuse makes every call of the stores fail as it would with a wrong password.
func refuse(stores ...*faultStore) {
	for _, f := range stores {
		f.set(func(call) verdict { return verdict{err: errRotated} })
	}
}

// mend ends that.
func mend(stores ...*faultStore) {
	for _, f := range stores {
		f.set(nil)
	}
}

// TestP24_LeadGoesOn: three programs, and a database that refuses all of them for a while, which is longer than a TTL or not: then one
// of them leads again, the one that led and those that stood by. Each says so, once a minute at most.
func TestP24_LeadGoesOn(t *testing.T) {
	for name, store := range map[string]func(*memory.Store) *faultStore{
		"lines": func(s *memory.Store) *faultStore { return &faultStore{Store: s} },
		"queue": func(s *memory.Store) *faultStore { f := withQueue(); f.Store = s; return f },
	} {
		outages := []time.Duration{5 * time.Second, 20 * time.Minute}
		if name == "queue" {
			outages[1] = 20 * time.Second // who waits in the server's queue wakes a thousand times a second
		}
		for _, outage := range outages {
			t.Run(fmt.Sprint(name, " ", outage), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					const ttl = 3 * time.Second
					space := memory.New()
					ctx, cancel := context.WithCancel(context.Background())
					var stores []*faultStore
					var logs []*logged
					var leads atomic.Int32
					var ended atomic.Bool
					done := make(chan error, 3)
					for range 3 {
						f, h := store(space), &logged{}
						stores, logs = append(stores, f), append(logs, h)
						o := logTo(h)
						o.TTL = ttl
						c := newClient(t, f, o)
						go func() {
							err := rowlock.Lead(ctx, c, "scheduler", func(ctx context.Context, term *rowlock.Lease) error {
								leads.Add(1)
								defer leads.Add(-1)
								<-ctx.Done()
								return ctx.Err()
							})
							if !ended.Load() {
								t.Errorf("P24: Lead ended by itself: %v", err)
							}
							done <- err
						}()
					}
					time.Sleep(10 * time.Second)
					if n := leads.Load(); n != 1 {
						t.Fatalf("%d lead before the outage", n)
					}
					refuse(stores...)
					time.Sleep(outage)
					sent := len(stores[0].seen("acquire")) + len(stores[1].seen("acquire")) + len(stores[2].seen("acquire"))
					mend(stores...)
					time.Sleep(2 * ttl) // a pause is a TTL at most, with its jitter, and the old lease may have to end
					if n := leads.Load(); n != 1 {
						t.Errorf("P24: %d lead two TTLs after an outage of %v", n, outage)
					}
					if most := int(outage/ttl)*6 + 60; sent > most {
						t.Errorf("%d attempts in an outage of %v, want at most %d", sent, outage, most)
					}
					time.Sleep(10 * time.Second)
					told := 0
					for _, h := range logs {
						lines, over := h.lines(refusedLoop), h.lines(servedLoop)
						if len(lines) > 0 {
							told++
							if !strings.HasPrefix(lines[0], "ERROR ") || !strings.Contains(lines[0], `loop=lead key=scheduler`) || !strings.Contains(lines[0], "refused the user") {
								t.Errorf("the line is %q", lines[0])
							}
							if len(over) != 1 {
								t.Errorf("its end has the lines %q", over)
							}
						}
						if most := 1 + int(outage/time.Minute); len(lines) > most {
							t.Errorf("%d lines in an outage of %v, want at most %d", len(lines), outage, most)
						}
					}
					if told == 0 { // who waits in a server's queue may not notice, and a lease may outlive a short outage
						t.Error("nobody has said it")
					}
					ended.Store(true)
					cancel()
					for range 3 {
						if err := <-done; !errors.Is(err, context.Canceled) {
							t.Errorf("Lead = %v", err)
						}
					}
				})
			})
		}
	}
}

// TestP24_EveryGoesOn: runs go on when a refusal is over, in the program that ran before and in the one that waited.
func TestP24_EveryGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		space := memory.New()
		ctx, cancel := context.WithCancel(context.Background())
		var stores []*faultStore
		h := &logged{}
		var runs runLog
		done := make(chan error, 2)
		for i := range 2 {
			f := &faultStore{Store: space}
			stores = append(stores, f)
			c := newClient(t, f, logTo(h))
			go func() {
				done <- rowlock.Every(ctx, c, "job", time.Minute, func(context.Context, *rowlock.Lease) error { runs.note(i); return nil })
			}()
		}
		time.Sleep(10*time.Minute + 30*time.Second)
		refuse(stores...)
		time.Sleep(5 * time.Minute)
		before, _ := runs.all()
		mend(stores...)
		time.Sleep(10 * time.Minute)
		after, _ := runs.all()
		if n := len(after) - len(before); n < 9 {
			t.Errorf("P24: %d runs in the ten minutes after the outage", n)
		}
		if lines := h.lines(refusedLoop); len(lines) == 0 || !strings.Contains(lines[0], "loop=every key=job") {
			t.Errorf("the lines are %q", lines)
		}
		cancel()
		for range 2 {
			if err := <-done; !errors.Is(err, context.Canceled) {
				t.Errorf("Every = %v", err)
			}
		}
	})
}

// TestLoopsEnd: at a first use what lasts is an error at once. Later a loop ends by its context, which names the refusal; by Close; and
// by what no database can mend.
func TestLoopsEnd(t *testing.T) {
	closed := &driver.Error{Lasting: true, NotApplied: true, Err: fmt.Errorf("the store: %w", driver.ErrClosed)}
	for name, tc := range map[string]struct {
		first bool // it has not worked before
		err   error
		end   func(c *rowlock.Client, cancel func())
		want  []error
	}{
		"first use": {first: true, err: errRotated, want: []error{errRotated}},
		"context":   {err: errRotated, end: func(_ *rowlock.Client, cancel func()) { cancel() }, want: []error{context.Canceled, errRotated}},
		"Close":     {err: errRotated, end: func(c *rowlock.Client, _ func()) { _ = c.Close(context.Background()) }, want: []error{rowlock.ErrClosed}},
		"store":     {err: closed, want: []error{rowlock.ErrClosed}},
	} {
		for verb, run := range map[string]func(context.Context, rowlock.Locker) error{
			"Lead": func(ctx context.Context, l rowlock.Locker) error {
				return rowlock.Lead(ctx, l, "k", func(context.Context, *rowlock.Lease) error { t.Error("fn runs"); return nil })
			},
			"Every": func(ctx context.Context, l rowlock.Locker) error {
				return rowlock.Every(ctx, l, "k", time.Minute, func(context.Context, *rowlock.Lease) error { t.Error("fn runs"); return nil })
			},
		} {
			t.Run(name+" "+verb, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f := newFaultStore()
					acquire(t, newClient(t, f.Store), "k")
					c := newClient(t, f)
					ctx, cancel := context.WithCancel(context.Background())
					defer cancel()
					fails := func() {
						f.set(func(c call) verdict {
							if c.op == "release" {
								return verdict{}
							}
							return verdict{err: tc.err}
						})
					}
					if tc.first {
						fails()
					}
					done := make(chan error, 1)
					go func() { done <- run(ctx, wrap{c}) }()
					time.Sleep(time.Minute)
					if !tc.first {
						fails()
						time.Sleep(2 * time.Minute) // a waiter asks once a minute while a key is kept
					}
					if tc.end != nil {
						select {
						case err := <-done:
							t.Fatalf("it ended before: %v", err)
						default:
						}
						tc.end(c, cancel)
					}
					synctest.Wait()
					select {
					case err := <-done:
						for _, want := range tc.want {
							if !errors.Is(err, want) {
								t.Errorf("%v, want %v", err, want)
							}
						}
					default:
						t.Error("it goes on")
						cancel()
						<-done
					}
				})
			})
		}
	}
}

// TestObserveSaysARefusal: a loop that has worked goes on and has a line, also where its body drops the error.
func TestObserveSaysARefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		h := &logged{}
		acquire(t, newClient(t, f.Store, rowlock.Options{Owner: "a"}), "k")
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		watch := newFollow(ctx, newClient(t, f, logTo(h)), "k")
		time.Sleep(3 * time.Second)
		refuse(f)
		time.Sleep(5 * time.Minute)
		mend(f)
		time.Sleep(3 * time.Second)
		if watch.text() != "a a! a" {
			t.Errorf("it was told %q", watch.text())
		}
		lines, over := h.lines(refusedLoop), h.lines(servedLoop)
		if len(lines) < 1 || len(lines) > 6 || !strings.HasPrefix(lines[0], "ERROR ") || !strings.Contains(lines[0], "loop=observe key=k") || len(over) != 1 {
			t.Errorf("the lines are %q, %q", lines, over)
		}
	})
}

// TestReaperSaysARefusal: a privilege that is missing is an error for somebody, not a warning each time, and the reaper goes on.
func TestReaperSaysARefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &refusesReap{faultStore: newFaultStore()}
		h := &logged{}
		o := logTo(h)
		o.ReapInterval = time.Second
		acquire(t, newClient(t, f, o), "k")
		f.refuses.Store(true)
		time.Sleep(10*time.Minute + time.Second)
		f.refuses.Store(false)
		time.Sleep(5 * time.Second)
		lines, over := h.lines(refusedLoop), h.lines(servedLoop)
		if len(lines) < 5 || len(lines) > 12 || !strings.HasPrefix(lines[0], "ERROR ") || !strings.Contains(lines[0], "loop=reap") || len(over) != 1 {
			t.Errorf("%d lines, the first %.1q, then %q", len(lines), lines, over)
		}
		if lines := h.lines("reaping failed; trying again later"); len(lines) > 0 {
			t.Errorf("beside them %d lines", len(lines))
		}
		if f.reaped.Load() == 0 {
			t.Error("it has ended")
		}
	})
}

// refusesReap is a store whose user may not delete.
type refusesReap struct {
	*faultStore
	refuses atomic.Bool
	reaped  atomic.Int64 // rounds since it may again
}

func (f *refusesReap) Reap(ctx context.Context, older time.Duration) (int, error) {
	if f.refuses.Load() {
		f.reaped.Store(0)
		return 0, errRotated
	}
	f.reaped.Add(1)
	return f.Store.Reap(ctx, older)
}
