package enginetest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/locktest"
	"github.com/rowlock/rowlock/memory"
)

var errMine = errors.New("mine")

// TestP24_Resign: fn that ends by itself ends Lead, and the next program leads at once.
func TestP24_Resign(t *testing.T) {
	for name, want := range map[string]error{"nil": nil, "error": errMine} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFaultStore()
				err := rowlock.Lead(t.Context(), newClient(t, f), "k", func(ctx context.Context, term *rowlock.Lease) error {
					if term.Err() != nil || ctx.Err() != nil || term.Key() != "k" {
						t.Errorf("fn runs without its lease: %v, %v", term.Err(), ctx.Err())
					}
					taken(t, f, "k")
					return want
				})
				if err != want {
					t.Errorf("Lead = %v, want %v", err, want)
				}
				free(t, f, "k")
			})
		})
	}
}

// TestP24_LossEndsATerm: after a loss Lead waits for fn, however long that takes, and then
// campaigns again, whatever fn has returned. fn never runs twice at a time.
func TestP24_LossEndsATerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		h := &logged{}
		c, other := newClient(t, f, logTo(h)), newClient(t, f.Store)
		var running, terms atomic.Int32
		returns := []error{nil, errMine, context.Canceled, nil}
		var last int64
		err := rowlock.Lead(t.Context(), c, "k", func(ctx context.Context, term *rowlock.Lease) error {
			if running.Add(1) != 1 {
				t.Error("P24: fn runs twice at a time")
			}
			defer running.Add(-1)
			if term.Token() <= last {
				locktest.Breach(t, "P24", "term %d after %d", term.Token(), last)
			}
			last = term.Token()
			n := terms.Add(1)
			if int(n) == len(returns) {
				return returns[n-1]
			}
			f.Expire("k")
			next := acquire(t, other, "k")
			_ = term.Renew(ctx)
			<-ctx.Done()
			if cause := context.Cause(ctx); !errors.Is(cause, rowlock.ErrLost) {
				t.Errorf("fn's context ended with the cause %v", cause)
			}
			next.Release(t.Context())
			time.Sleep(3 * time.Minute) // deaf
			free(t, f, "k")
			return returns[n-1]
		})
		if err != nil || terms.Load() != int32(len(returns)) {
			t.Errorf("Lead = %v after %d terms, want nil after %d", err, terms.Load(), len(returns))
		}
		time.Sleep(time.Second)
		if lines := h.lines("the function of a lost lease failed"); len(lines) != 1 || !strings.Contains(lines[0], "mine") {
			t.Errorf("logged of fn's errors after losses: %q, want the one that is not the context's", lines)
		}
	})
}

// TestLeadPausesAfterALoss: about a tenth of the TTL, in which others may lead.
func TestLeadPausesAfterALoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		var lost time.Time
		err := rowlock.Lead(t.Context(), newClient(t, f), "k", func(ctx context.Context, term *rowlock.Lease) error {
			if !lost.IsZero() {
				if d := time.Since(lost); d < 2*time.Second || d > 4100*time.Millisecond {
					t.Errorf("campaigned again after %v", d)
				}
				return nil
			}
			f.ForceRelease(ctx, "k")
			_ = term.Renew(ctx)
			lost = time.Now()
			return nil
		}, rowlock.TTL(30*time.Second))
		if err != nil || lost.IsZero() {
			t.Error(err)
		}
	})
}

// TestP24_EndOfContext: the key stays held until fn has returned, and Lead's error is ctx's.
func TestP24_EndOfContext(t *testing.T) {
	cause := errors.New("the cause")
	for name, tc := range map[string]struct {
		fn   func(context.Context) error
		want []error
	}{
		"nil":      {func(context.Context) error { return nil }, []error{context.Canceled, cause}},
		"ctx.Err":  {func(ctx context.Context) error { return ctx.Err() }, []error{context.Canceled, cause}},
		"cause":    {func(ctx context.Context) error { return context.Cause(ctx) }, []error{context.Canceled, cause}},
		"an error": {func(context.Context) error { return errMine }, []error{context.Canceled, cause, errMine}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFaultStore()
				ctx, cancel := context.WithCancelCause(context.Background())
				time.AfterFunc(time.Minute, func() { cancel(cause) })
				err := rowlock.Lead(ctx, newClient(t, f), "k", func(ctx context.Context, term *rowlock.Lease) error {
					<-ctx.Done()
					time.Sleep(5 * time.Minute) // deaf, for ten TTLs
					taken(t, f, "k")
					if term.Err() != nil {
						t.Errorf("P24: the lease under a function that runs: %v", term.Err())
					}
					return tc.fn(ctx)
				})
				for _, want := range tc.want {
					if !errors.Is(err, want) {
						t.Errorf("Lead = %v, want %v", err, want)
					}
				}
				if n := len(strings.Split(err.Error(), "\n")); n != len(tc.want)-1 {
					t.Errorf("%d lines: %v", n, err)
				}
				free(t, f, "k")
			})
		})
	}
}

// TestP24_EndOfContextWhileWaiting: Lead that never led.
func TestP24_EndOfContextWhileWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		acquire(t, newClient(t, f.Store), "k")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := rowlock.Lead(ctx, newClient(t, f), "k", func(context.Context, *rowlock.Lease) error { t.Error("P24: fn runs without the key"); return nil })
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, rowlock.ErrHeld) {
			t.Errorf("Lead = %v", err)
		}
	})
}

// TestP24_Close: Close ends fn's context, waits for fn, and Lead ends with ErrClosed.
func TestP24_Close(t *testing.T) {
	for name, ret := range map[string]error{"nil": nil, "its context's": context.Canceled, "error": errMine} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFaultStore()
				c := newClient(t, f)
				var returned atomic.Bool
				lead := make(chan error, 1)
				go func() {
					lead <- rowlock.Lead(t.Context(), wrap{c}, "k", func(ctx context.Context, term *rowlock.Lease) error {
						<-ctx.Done()
						if cause := context.Cause(ctx); !errors.Is(cause, rowlock.ErrClosed) {
							t.Errorf("the cause is %v", cause)
						}
						if err := c.Close(ctx); !errors.Is(err, rowlock.ErrSelfDeadlock) {
							t.Errorf("Close inside fn = %v", err)
						}
						time.Sleep(time.Minute)
						taken(t, f, "k")
						returned.Store(true)
						return ret
					})
				}()
				synctest.Wait()
				if err := c.Close(t.Context()); err != nil || !returned.Load() {
					t.Errorf("P24: Close = %v, fn has returned: %v", err, returned.Load())
				}
				err := <-lead
				if !errors.Is(err, rowlock.ErrClosed) || errors.Is(err, errMine) != (ret == errMine) {
					t.Errorf("Lead = %v", err)
				}
				if err := rowlock.Lead(t.Context(), c, "k", func(context.Context, *rowlock.Lease) error { t.Error("fn runs"); return nil }); !errors.Is(err, rowlock.ErrClosed) {
					t.Errorf("Lead of a closed client = %v", err)
				}
				free(t, f, "k")
			})
		})
	}
}

// TestLeadEndsWithCloseAfterALoss: the pause between two terms ends with the client.
func TestLeadEndsWithCloseAfterALoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		c := newClient(t, f)
		start := time.Now()
		err := rowlock.Lead(t.Context(), c, "k", func(ctx context.Context, term *rowlock.Lease) error {
			f.ForceRelease(ctx, "k")
			_ = term.Renew(ctx)
			time.AfterFunc(time.Second, func() { c.Close(context.Background()) })
			return nil
		}, rowlock.TTL(time.Hour))
		if d := time.Since(start); !errors.Is(err, rowlock.ErrClosed) || d != time.Second {
			t.Errorf("after %v: %v", d, err)
		}
	})
}

// TestP24_FunctionThatDoesNotReturn: after a panic and runtime.Goexit the key is free, and
// Close waits for nobody.
func TestP24_FunctionThatDoesNotReturn(t *testing.T) {
	for name, leave := range map[string]func(){"panic": func() { panic("boom") }, "Goexit": runtime.Goexit} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFaultStore()
				c := newClient(t, f)
				gone := make(chan any)
				go func() {
					defer func() { gone <- recover() }()
					rowlock.Lead(t.Context(), c, "k", func(context.Context, *rowlock.Lease) error { leave(); return nil })
					t.Error("Lead returned")
				}()
				if r := <-gone; name == "panic" && r != "boom" {
					t.Errorf("recovered %v", r)
				}
				free(t, f, "k")
			})
		})
	}
}

// TestLeadErrors: what comes back at once, and what is waited out.
func TestLeadErrors(t *testing.T) {
	ran := func(context.Context, *rowlock.Lease) error { return errMine }
	lasting := &driver.Error{Lasting: true, NotApplied: true, Err: fmt.Errorf("no table: %w", rowlock.ErrSchema)}
	for name, tc := range map[string]struct {
		fault func(call) verdict
		call  func(context.Context, *rowlock.Client) error
		want  error
		names string
	}{
		"no Locker":   {nil, func(ctx context.Context, c *rowlock.Client) error { return rowlock.Lead(ctx, nil, "k", ran) }, rowlock.ErrInvalid, "Locker"},
		"no function": {nil, func(ctx context.Context, c *rowlock.Client) error { return rowlock.Lead(ctx, c, "k", nil) }, rowlock.ErrInvalid, "function"},
		"no context":  {nil, func(_ context.Context, c *rowlock.Client) error { return rowlock.Lead(nil, c, "k", ran) }, rowlock.ErrInvalid, "context"}, //lint:ignore SA1012 bad input
		"no key":      {nil, func(ctx context.Context, c *rowlock.Client) error { return rowlock.Lead(ctx, c, "", ran) }, rowlock.ErrInvalid, "empty"},
		"NoWait": {nil, func(ctx context.Context, c *rowlock.Client) error {
			return rowlock.Lead(ctx, c, "k", ran, rowlock.NoWait())
		}, rowlock.ErrInvalid, "NoWait"},
		"Shared": {nil, func(ctx context.Context, c *rowlock.Client) error {
			return rowlock.Lead(ctx, c, "k", ran, rowlock.Shared())
		}, rowlock.ErrInvalid, "Shared"},
		"Slots": {nil, func(ctx context.Context, c *rowlock.Client) error {
			return rowlock.Lead(ctx, c, "k", ran, rowlock.Slots(2))
		}, rowlock.ErrInvalid, "Slots"},
		"nil option":     {nil, func(ctx context.Context, c *rowlock.Client) error { return rowlock.Lead(ctx, c, "k", ran, nil) }, rowlock.ErrInvalid, "option 1"},
		"empty Locker":   {nil, func(ctx context.Context, c *rowlock.Client) error { return rowlock.Lead(ctx, noLocker{}, "k", ran) }, rowlock.ErrInvalid, "noLocker"},
		"lasting error":  {on("acquire", verdict{err: lasting}), func(ctx context.Context, c *rowlock.Client) error { return rowlock.Lead(ctx, c, "k", ran) }, rowlock.ErrSchema, "no table"},
		"passing errors": {outage(time.Minute), func(ctx context.Context, c *rowlock.Client) error { return rowlock.Lead(ctx, c, "k", ran) }, errMine, "mine"},
		"self-deadlock": {nil, func(ctx context.Context, c *rowlock.Client) error {
			return rowlock.Do(ctx, c, "k", func(ctx context.Context, _ *rowlock.Lease) error { return rowlock.Lead(ctx, c, "k", ran) })
		}, rowlock.ErrSelfDeadlock, `"k"`},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFaultStore()
				f.set(tc.fault)
				c := newClient(t, f)
				err := tc.call(context.Background(), c)
				if !errors.Is(err, tc.want) || !strings.Contains(err.Error(), tc.names) {
					t.Errorf("%v, want %v that names %q", err, tc.want, tc.names)
				}
				if errors.Is(tc.want, rowlock.ErrInvalid) && len(f.seen("acquire")) > 0 {
					t.Error("something was sent")
				}
			})
		})
	}
}

// noLocker gives nothing.
type noLocker struct{ rowlock.Locker }

func (noLocker) Acquire(context.Context, string, ...rowlock.Option) (*rowlock.Lease, error) {
	return nil, nil
}

// outage fails acquires for d.
func outage(d time.Duration) func(call) verdict {
	over := time.Time{}
	return func(c call) verdict {
		if over.IsZero() {
			over = time.Now().Add(d)
		}
		if c.op == "acquire" && time.Now().Before(over) {
			return verdict{err: &driver.Error{NotApplied: true, Err: errors.New("too many connections")}}
		}
		return verdict{}
	}
}

// TestP24_OneAtATime: of five programs one leads at a time, while leaders resign, lose their
// leases and are slow to stop. Each fn that led looks at its lease before each step.
func TestP24_OneAtATime(t *testing.T) {
	look, all := 10*time.Millisecond, time.Hour
	if testing.Short() {
		look, all = 250*time.Millisecond, 30*time.Minute
	}
	synctest.Test(t, func(t *testing.T) {
		space := memory.New()
		ctx, cancel := context.WithTimeout(t.Context(), all)
		defer cancel()
		var leads atomic.Int32
		var last atomic.Int64
		terms := make([]int, 5)
		done := make(chan struct{})
		for i := range terms {
			f := &faultStore{Store: space}
			c := newClient(t, f)
			go func() {
				defer func() { done <- struct{}{} }()
				for ctx.Err() == nil {
					err := rowlock.Lead(ctx, c, "k", func(ctx context.Context, term *rowlock.Lease) error {
						terms[i]++
						if before := last.Swap(term.Token()); before >= term.Token() {
							locktest.Breach(t, "P24", "term %d after %d", term.Token(), before)
						}
						end := time.Now().Add(time.Duration(1+terms[i]%4) * time.Minute)
						if (i+terms[i])%3 == 0 { // cut off from the database
							f.set(on("renew", verdict{hang: true}))
							defer f.set(nil)
						}
						for time.Now().Before(end) && term.Err() == nil {
							if leads.Add(1) != 1 {
								locktest.Breach(t, "P1", "two programs trust their leases")
							}
							leads.Add(-1)
							time.Sleep(look)
						}
						if terms[i]%2 == 0 {
							time.Sleep(time.Minute) // slow to stop
						}
						return ctx.Err()
					})
					if err != nil && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
						t.Error(err)
					}
				}
			}()
		}
		for range terms {
			<-done
		}
		t.Logf("terms %v", terms)
		for _, n := range terms {
			if n == 0 {
				t.Errorf("terms %v: one never led", terms)
			}
		}
	})
}
