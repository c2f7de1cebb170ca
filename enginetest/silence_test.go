package enginetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
)

// silent is what a store answers whose connection turned out to be dead.
func silent(notApplied bool) error {
	return &driver.Error{Silent: true, NotApplied: notApplied, Err: errors.New("no answer for 1s, and the server answers on a new connection")}
}

// swallow makes the first n calls of an op silent, after a second each.
func swallow(op string, n int, v verdict) func(call) verdict {
	return func(c call) verdict {
		if c.op == op && c.n < n {
			return v
		}
		return verdict{}
	}
}

// attempts are the three ways to ask once or wait.
var attempts = map[string]func(context.Context, *rowlock.Client, string) (*rowlock.Lease, error){
	"Acquire": func(ctx context.Context, c *rowlock.Client, k string) (*rowlock.Lease, error) {
		return c.Acquire(ctx, k)
	},
	"TryAcquire": func(ctx context.Context, c *rowlock.Client, k string) (*rowlock.Lease, error) {
		return c.TryAcquire(ctx, k)
	},
	"NoWait": func(ctx context.Context, c *rowlock.Client, k string) (*rowlock.Lease, error) {
		return c.Acquire(ctx, k, rowlock.NoWait())
	},
}

// TestSilentAcquire: an attempt whose connection was dead goes again at once, under an ID
// of its own, until the caller has an answer. What the dead connection may still have
// brought to the server is undone, and is nobody's hold meanwhile.
func TestSilentAcquire(t *testing.T) {
	const dead = 3
	for how, ask := range attempts {
		for what, v := range map[string]verdict{
			"lost":         {err: silent(false), delay: time.Second},
			"executed":     {err: silent(false), delay: time.Second, apply: true},
			"never sent":   {err: silent(true), delay: time.Second},
			"found closed": {err: silent(true)},
		} {
			for name, may := range map[string]bool{"": false, ", may be given up": true} {
				t.Run(how+" "+what+name, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						ctx := context.Background() // the caller sends by itself
						if may {
							ctx = t.Context()
						}
						f := newFaultStore()
						c := newClient(t, f)
						f.set(swallow("acquire", dead, v))
						start := time.Now()
						l, err := ask(ctx, c, "k")
						if err != nil {
							t.Fatal(err)
						}
						if d, most := time.Since(start), dead*v.delay+500*time.Millisecond; d > most {
							t.Errorf("took %v, want %v", d, most)
						}
						ids := make(map[driver.HoldID]bool)
						for _, c := range f.seen("acquire") {
							ids[c.ids[0]] = true
						}
						if n := len(f.seen("acquire")); len(ids) != n || n <= dead {
							t.Errorf("%d IDs in %d attempts", len(ids), n)
						}
						time.Sleep(2 * time.Minute)
						if l.Err() != nil {
							t.Error(l.Err())
						}
						if undone := len(f.seen("release")) > 0; undone == driver.IsNotApplied(v.err) {
							t.Errorf("an undo was sent: %v", undone)
						}
						if n := c.Stats().Unresolved; n > 0 {
							t.Errorf("%d undos never ended", n)
						}
					})
				})
			}
		}
	}
}

// TestSilentAcquireOfAHeldKey: the key is held by another; only the undo of an own
// attempt is waited for.
func TestSilentAcquireOfAHeldKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		c, other := newClient(t, f), newClient(t, f.Store, rowlock.Options{Owner: "other"})
		acquire(t, other, "k")
		f.set(swallow("acquire", 1, verdict{err: silent(false), delay: time.Second, apply: true}))
		start := time.Now()
		if _, err := c.TryAcquire(context.Background(), "k"); !errors.Is(err, rowlock.ErrHeld) {
			t.Errorf("TryAcquire = %v", err)
		}
		if d := time.Since(start); d > 1500*time.Millisecond {
			t.Errorf("took %v", d)
		}
	})
}

// TestSilentAcquireIsBounded: it goes on only for as long as the caller wants it, and the
// client is open; nothing is left then.
func TestSilentAcquireIsBounded(t *testing.T) {
	for how, ask := range attempts {
		for what, v := range map[string]verdict{
			"a second each": {err: silent(false), delay: time.Second, apply: true},
			"at once":       {err: silent(false), apply: true},
			"never sent":    {err: silent(true)},
		} {
			t.Run(how+" "+what, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					const patience = 10 * time.Second
					f := newFaultStore()
					c := newClient(t, f)
					f.set(on("acquire", v))
					ctx, cancel := context.WithTimeout(context.Background(), patience)
					defer cancel()
					start := time.Now()
					_, err := ask(ctx, c, "k")
					if !errors.Is(err, context.DeadlineExceeded) || !driver.IsSilent(err) {
						t.Errorf("error %v, want one that names the end and the cause", err)
					}
					if d := time.Since(start); d != patience {
						t.Errorf("gave up after %v, want %v", d, patience)
					}
					if n := len(f.seen("acquire")); n < 5 || n > 100 {
						t.Errorf("%d attempts in %v", n, patience)
					}
					sent := len(f.seen("acquire"))
					time.Sleep(time.Minute)
					if n := len(f.seen("acquire")) - sent; n > 1 {
						t.Errorf("%d more attempts after the caller had gone", n)
					}
					free(t, f, "k")

					ended := make(chan error)
					go func() {
						_, err := ask(context.Background(), c, "k")
						ended <- err
					}()
					time.Sleep(3 * time.Second)
					go c.Close(context.Background())
					if err := <-ended; !errors.Is(err, rowlock.ErrClosed) {
						t.Errorf("error %v of a closed client", err)
					}
				})
			})
		}
	}
}

// TestSilentTryEnds: a try whose caller would wait for ever ends when a grant of its first
// attempt could not be trusted any more, as one does that hangs.
func TestSilentTryEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		c := newClient(t, f)
		f.set(on("acquire", verdict{err: silent(false), delay: time.Second}))
		start := time.Now()
		if _, err := c.TryAcquire(context.Background(), "k"); !driver.IsSilent(err) {
			t.Errorf("TryAcquire = %v", err)
		}
		if d := time.Since(start); d < 27*time.Second || d > 29*time.Second {
			t.Errorf("gave up after %v, with a TTL of 30s", d)
		}
	})
}

// TestSilenceKeepsTheOrder: a waiter whose attempt met a dead connection keeps its place.
func TestSilenceKeepsTheOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const waiters = 5
		f := newFaultStore()
		c := newClient(t, f, rowlock.Options{Handoff: -1})
		f.set(swallow("acquire", 2*waiters, verdict{err: silent(false), delay: time.Second}))
		order := make(chan int, waiters)
		for i := range waiters {
			go func() {
				l, err := c.Acquire(t.Context(), "k")
				if err != nil {
					t.Error(err)
				}
				order <- i
				l.Release(context.Background())
			}()
			synctest.Wait()
		}
		var got []int
		for range waiters {
			got = append(got, <-order)
		}
		if !slices.IsSorted(got) {
			t.Errorf("served in the order %v", got)
		}
	})
}

// TestP26_SilentRenewals: connections that a firewall has forgotten cost no lease, not
// even one of the shortest TTL for which that is promised.
func TestP26_SilentRenewals(t *testing.T) {
	for _, ttl := range []time.Duration{3 * time.Second, 30 * time.Second} {
		t.Run(ttl.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFaultStore()
				c := newClient(t, f, rowlock.Options{TTL: ttl})
				l := acquire(t, c, "k")
				f.set(func(c call) verdict {
					if c.op == "renew" && c.n%4 < 3 { // of each cycle the first three tries
						return verdict{err: silent(false), delay: ttl / 12}
					}
					return verdict{}
				})
				time.Sleep(20 * ttl)
				if l.Err() != nil {
					t.Error(l.Err())
				}
				calls := f.seen("renew")
				if len(calls) < 4*20 {
					t.Errorf("only %d renewals were sent", len(calls))
				}
				for i, c := range calls[1:] {
					if apart := c.at - calls[i].at; calls[i].n%4 < 3 && apart > ttl/12 {
						t.Errorf("a renewal went again only after %v", apart)
					}
				}
			})
		})
	}
}

// TestP26_ADeadConnectionBeforeASlowServer: the connection of a renewal is dead, and the
// server needs a sixth of the TTL for a commit on a new one.
func TestP26_ADeadConnectionBeforeASlowServer(t *testing.T) {
	for _, ttl := range []time.Duration{3 * time.Second, 30 * time.Second} {
		t.Run(ttl.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFaultStore()
				c := newClient(t, f, rowlock.Options{TTL: ttl})
				l := acquire(t, c, "k")
				f.set(func(c call) verdict {
					switch {
					case c.op == "renew" && c.n%2 == 0:
						return verdict{hang: true}
					case c.op == "renew":
						return verdict{slow: ttl/6 - time.Millisecond}
					}
					return verdict{}
				})
				time.Sleep(20 * ttl)
				if l.Err() != nil {
					t.Error(l.Err())
				}
				f.set(nil)
			})
		})
	}
}

// TestP26_ASlowRenewalIsNotGivenUp: a server so busy that each renewal, and the opening of a connection for it, takes nearly half a TTL,
// though a write of one row comes in time. What has been sent is waited for, and another goes beside it in the middle.
func TestP26_ASlowRenewalIsNotGivenUp(t *testing.T) {
	for _, ttl := range []time.Duration{3 * time.Second, 30 * time.Second} {
		t.Run(ttl.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFaultStore()
				c := newClient(t, f, rowlock.Options{TTL: ttl})
				l := acquire(t, c, "k")
				f.set(on("renew", verdict{slow: ttl * 9 / 20}))
				time.Sleep(20 * ttl)
				if l.Err() != nil {
					t.Error(l.Err())
				}
				if n := len(f.seen("renew")); n > 20*4 {
					t.Errorf("%d renewals in 20 TTLs, want one in a quarter of it at most", n)
				}
				f.set(nil)
			})
		})
	}
}

// TestSilentRenewalsDoNotSpin: a store that says silent at once, again and again, is not
// asked without end.
func TestSilentRenewalsDoNotSpin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		c := newClient(t, f)
		l := acquire(t, c, "k")
		f.set(on("renew", verdict{err: silent(false)}))
		<-l.Done()
		if n := len(f.seen("renew")); n < 10 || n > 300 {
			t.Errorf("%d renewals in the rest of a TTL", n)
		}
		f.set(nil)
	})
}

// TestSilentRenewByHand: Lease.Renew goes again too, for as long as its caller waits.
func TestSilentRenewByHand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		c := newClient(t, f)
		l := acquire(t, c, "k", rowlock.NoRenew())
		f.set(swallow("renew", 2, verdict{err: silent(false), delay: time.Second}))
		if err := l.Renew(context.Background()); err != nil {
			t.Errorf("Renew = %v", err)
		}
		f.set(on("renew", verdict{err: silent(false)}))
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		before := len(f.seen("renew"))
		if err := l.Renew(ctx); err == nil || errors.Is(err, rowlock.ErrLost) {
			t.Errorf("Renew = %v", err)
		}
		if n := len(f.seen("renew")) - before; n < 2 || n > 100 {
			t.Errorf("%d renewals", n)
		}
	})
}

// TestSilentRelease: a release goes again on another connection while its caller waits. If
// the first one had worked the second finds nothing, and that is no loss.
func TestSilentRelease(t *testing.T) {
	gone := []driver.Result{{Status: driver.Removed}}
	for name, tc := range map[string]struct {
		silent int
		v      verdict
		then   verdict
		late   uint64
	}{
		"lost":                    {2, verdict{err: silent(false), delay: time.Second}, verdict{}, 0},
		"executed":                {1, verdict{err: silent(false), delay: time.Second, apply: true}, verdict{answer: gone}, 0},
		"never sent":              {2, verdict{err: silent(true)}, verdict{}, 0},
		"longer than ReleaseWait": {4, verdict{err: silent(false), delay: time.Second}, verdict{}, 1},
	} {
		for _, ttl := range []time.Duration{30 * time.Second, 3 * time.Second} {
			t.Run(fmt.Sprint(name, " ", ttl), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f := newFaultStore()
					c := newClient(t, f, rowlock.Options{TTL: ttl})
					l := acquire(t, c, "k")
					f.set(func(c call) verdict {
						switch {
						case c.op == "release" && c.n < tc.silent:
							return tc.v
						case c.op == "release" && c.n == tc.silent:
							return tc.then
						}
						return verdict{}
					})
					start := time.Now()
					if err := l.Release(context.Background()); err != nil {
						t.Errorf("Release = %v", err)
					}
					if d := time.Since(start); d > 3*time.Second {
						t.Errorf("waited for %v", d)
					}
					if s := c.Stats(); s.LateReleases != tc.late || s.Losses != 0 {
						t.Errorf("stats %+v", s)
					}
					time.Sleep(5 * time.Second)
					free(t, f, "k")
				})
			})
		}
	}
}

// TestSilentUndo: so does an undo, and it does not spin.
func TestSilentUndo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		c := newClient(t, f)
		f.set(func(c call) verdict {
			switch {
			case c.op == "acquire":
				return verdict{err: errors.New("reset"), apply: true}
			case c.op == "release" && c.n < 3:
				return verdict{err: silent(false), delay: time.Second}
			}
			return verdict{}
		})
		if _, err := c.TryAcquire(context.Background(), "k"); err == nil {
			t.Fatal("no error")
		}
		time.Sleep(3*time.Second + 100*time.Millisecond)
		free(t, f, "k")
		f.set(func(c call) verdict {
			switch c.op {
			case "acquire":
				return verdict{err: errors.New("reset"), apply: true}
			case "release":
				return verdict{err: silent(false)}
			}
			return verdict{}
		})
		before := len(f.seen("release"))
		c.TryAcquire(context.Background(), "k2")
		time.Sleep(20 * time.Second)
		if n := len(f.seen("release")) - before; n < 10 || n > 100 {
			t.Errorf("%d undos in 20 s", n)
		}
		f.set(nil)
	})
}

// TestSilentInspect: a look goes again too.
func TestSilentInspect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		c := newClient(t, f)
		acquire(t, c, "k")
		f.set(swallow("inspect", 2, verdict{err: silent(true), delay: time.Second}))
		if i, err := c.Inspect(context.Background(), "k"); err != nil || !i.Held {
			t.Errorf("Inspect = %+v, %v", i, err)
		}
		f.set(on("inspect", verdict{err: silent(true)}))
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		before := len(f.seen("inspect"))
		if _, err := c.Inspect(ctx, "k"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Inspect = %v", err)
		}
		if n := len(f.seen("inspect")) - before; n < 2 || n > 100 {
			t.Errorf("%d calls", n)
		}
	})
}
