package enginetest

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
)

// TestOwnReleaseIsNotAHolder: the key that a caller waits for was released by the same
// client, and the release has not arrived. Whether somebody has it is not known.
func TestOwnReleaseIsNotAHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		c := newClient(t, f)
		l := acquire(t, c, "k")
		f.set(on("release", verdict{delay: 2 * time.Second}))
		go l.Release(context.Background())
		synctest.Wait()
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		_, err := c.Acquire(ctx, "k")
		if !errors.Is(err, context.DeadlineExceeded) || !isOwnRelease(err) {
			t.Errorf("%v, want the context's error and that the own release is not answered", err)
		}
	})
}

// isOwnRelease reports whether err says that a release of the same client is not answered, and not that somebody has the key.
func isOwnRelease(err error) bool {
	return errors.Is(err, rowlock.ErrReleasing) && !errors.Is(err, rowlock.ErrHeld)
}

// TestOwnLateReleaseIsNotAHolder: Release did not wait any longer for its answer, and its key is still taken. That is no other
// program's lease: a job that is run by Do with NoWait would be skipped in silence. Of a key that another caller of the client has, and
// in a mode that the hold does not exclude, nothing changes.
func TestOwnLateReleaseIsNotAHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		c, other := newClient(t, f, rowlock.Options{ReleaseWait: time.Second}), newClient(t, f.Store)
		l, read, beside, theirs := acquire(t, c, "k"), acquire(t, c, "read", rowlock.Shared()), acquire(t, c, "beside", rowlock.Shared()), acquire(t, other, "theirs")
		f.set(on("release", verdict{hang: true}))
		for _, l := range []*rowlock.Lease{l, read, beside} {
			if err := l.Release(context.Background()); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := c.TryAcquire(context.Background(), "beside", rowlock.Shared()); err != nil {
			t.Errorf("TryAcquire of another reader: %v", err)
		}
		for _, key := range []string{"k", "read"} {
			if _, err := c.TryAcquire(context.Background(), key); !isOwnRelease(err) {
				t.Errorf("TryAcquire of %q: %v", key, err)
			}
			if err := rowlock.Do(context.Background(), c, key, func(context.Context, *rowlock.Lease) error { return nil }, rowlock.NoWait()); !isOwnRelease(err) {
				t.Errorf("Do of %q with NoWait: %v", key, err)
			}
			ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
			if _, err := c.Acquire(ctx, key); !errors.Is(err, context.DeadlineExceeded) || !isOwnRelease(err) {
				t.Errorf("Acquire of %q: %v", key, err)
			}
			cancel()
		}
		if _, err := c.TryAcquire(context.Background(), "theirs"); !errors.Is(err, rowlock.ErrHeld) {
			t.Errorf("TryAcquire of a key that another has: %v", err)
		}
		f.set(nil)
		time.Sleep(time.Minute)
		l = acquire(t, c, "k")
		f.set(on("release", verdict{delay: time.Second / 2}))
		go l.Release(context.Background())
		synctest.Wait()
		if _, err := c.TryAcquire(context.Background(), "k"); !errors.Is(err, rowlock.ErrHeld) {
			t.Errorf("TryAcquire while the caller of Release waits for the answer: %v", err)
		}
		time.Sleep(time.Second)
		release(t, acquire(t, c, "k"))
		release(t, theirs)
	})
}

// TestOwnGivenBackIsNotAHolder: AcquireAll got one of its keys and failed, and what it gave back is on its way. Nobody has the key.
func TestOwnGivenBackIsNotAHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		c, other := newClient(t, f), newClient(t, f.Store)
		theirs := acquire(t, other, "b")
		f.set(on("release", verdict{delay: time.Second}))
		ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
		defer cancel()
		if _, err := c.AcquireAll(ctx, []rowlock.Want{{Key: "a"}, {Key: "b"}}); !errors.Is(err, rowlock.ErrHeld) {
			t.Fatal(err)
		}
		if _, err := c.TryAcquire(context.Background(), "a"); !isOwnRelease(err) {
			t.Errorf("TryAcquire of what was given back: %v", err)
		}
		if _, err := c.TryAcquire(context.Background(), "b"); !errors.Is(err, rowlock.ErrHeld) {
			t.Errorf("TryAcquire of a key that another has: %v", err)
		}
		f.set(nil)
		time.Sleep(time.Second)
		release(t, acquire(t, c, "a"))
		release(t, theirs)
	})
}

// TestOwnHoldThatHasExpired: after a loss the own hold keeps nobody from its key for longer than a TTL from its last answer, unless a
// renewal of it is on its way, also where the loss was noticed later, or where neither its release nor its undo is answered: a refusal is another's hold then.
func TestOwnHoldThatHasExpired(t *testing.T) {
	const ttl = 30 * time.Second
	for _, c := range []struct {
		name  string
		opts  []rowlock.Option
		renew verdict
		leave func(*rowlock.Lease)
		until time.Duration // the own hold may be there
	}{
		{name: "not renewed", opts: []rowlock.Option{rowlock.NoRenew()}, until: ttl},
		// A renewal may arrive within a TTL after the last was given up, and prolong the hold then.
		{name: "its renewals are not answered", renew: verdict{hang: true}, until: 3*ttl - 3*time.Second},
		{name: "released", opts: []rowlock.Option{rowlock.NoRenew()}, leave: func(l *rowlock.Lease) { l.Release(context.Background()) }, until: ttl},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFaultStore()
				c1, other := newClient(t, f, rowlock.Options{TTL: ttl, ReleaseWait: time.Second}), newClient(t, f.Store)
				began := time.Now()
				l := acquire(t, c1, "k", c.opts...)
				f.set(func(q call) verdict {
					switch q.op {
					case "release":
						return verdict{hang: true}
					case "renew":
						return c.renew
					}
					return verdict{}
				})
				if c.leave != nil {
					time.Sleep(ttl - 4*time.Second)
					c.leave(l)
				}
				<-l.Done()
				theirs, err := other.Acquire(context.Background(), "k")
				if err != nil {
					t.Fatal(err)
				}
				for time.Since(began) < 4*ttl {
					_, err := c1.TryAcquire(context.Background(), "k")
					own := time.Since(began) <= c.until
					if isOwnRelease(err) != own || !own && !errors.Is(err, rowlock.ErrHeld) {
						t.Fatalf("after %v: %v, want the own hold told until %v", time.Since(began), err, c.until)
					}
					time.Sleep(time.Second)
				}
				release(t, theirs)
			})
		})
	}
}

// TestOwnAttemptIsNotAHolder: an attempt of a caller who has left got the key, or its transaction is still open, and its undo was not
// answered, or came before it. A refusal that names this client, or nobody, is by that, and is no other program's lease; one that names
// another is.
func TestOwnAttemptIsNotAHolder(t *testing.T) {
	for _, c := range []struct {
		name    string
		early   bool // the undo is answered, and found nothing
		acquire verdict
	}{
		{"not undone", false, verdict{}},
		{"its undo came too early", true, verdict{}},
		{"open", false, verdict{change: func(r []driver.Result) {
			if r[0].Owner != "other" {
				r[0] = driver.Result{Status: driver.Pinned}
			}
		}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFaultStore()
				this, other := newClient(t, f, rowlock.Options{Owner: "this"}), newClient(t, f.Store, rowlock.Options{Owner: "other"})
				theirs := acquire(t, other, "theirs")
				answers := func(acquire verdict) func(call) verdict {
					return func(q call) verdict {
						switch {
						case q.op == "acquire":
							return acquire
						case q.op == "release" && c.early:
							return verdict{answer: slices.Repeat([]driver.Result{{Status: driver.Removed}}, len(q.keys))}
						}
						return verdict{hang: q.op == "release"}
					}
				}
				f.set(answers(verdict{hang: true, apply: true}))
				for _, key := range []string{"k", "theirs"} {
					ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
					if _, err := this.TryAcquire(ctx, key); !errors.Is(err, context.DeadlineExceeded) {
						t.Fatal(err)
					}
					cancel()
				}
				time.Sleep(28 * time.Second) // the attempts are given up
				f.set(answers(c.acquire))
				for key, own := range map[string]bool{"k": true, "theirs": false} {
					ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
					_, try := this.TryAcquire(context.Background(), key)
					_, wait := this.Acquire(ctx, key)
					cancel()
					if !errors.Is(try, rowlock.ErrHeld) != own || isOwnRelease(try) != own || isOwnRelease(wait) != own || !errors.Is(wait, context.DeadlineExceeded) {
						t.Errorf("%q, own %v: TryAcquire %v, Acquire %v", key, own, try, wait)
					}
				}
				f.set(nil)
				time.Sleep(2 * time.Minute)
				release(t, acquire(t, this, "k"))
				release(t, theirs)
			})
		})
	}
}

// TestOwnAttemptOnItsWay: a caller has left, and its attempt has got the key: the answer is still to come.
func TestOwnAttemptOnItsWay(t *testing.T) {
	for name, ask := range attempts {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFaultStore()
				c := newClient(t, f)
				f.set(on("acquire", verdict{slow: 5 * time.Second}))
				ctx, cancel := context.WithTimeout(context.Background(), time.Second)
				defer cancel()
				if _, err := ask(ctx, c, "k"); !errors.Is(err, context.DeadlineExceeded) {
					t.Fatal(err)
				}
				f.set(nil)
				if _, err := c.TryAcquire(context.Background(), "k"); !isOwnRelease(err) {
					t.Errorf("%v, want that the release is not answered", err)
				}
				time.Sleep(time.Minute)
				release(t, acquire(t, c, "k"))
			})
		})
	}
}

// TestOwnAttemptWasTheCause: what a wait that ends tells is what it met last, also where that is undone by then.
func TestOwnAttemptWasTheCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := withQueue()
		c := newClient(t, f)
		f.set(func(q call) verdict {
			switch q.op {
			case "acquire":
				return verdict{hang: q.n != 1, apply: q.n == 0} // the second is refused by the first
			case "wait":
				return verdict{before: func(ctx context.Context) error {
					<-ctx.Done()
					return &driver.Error{NotApplied: true, Err: ctx.Err()}
				}}
			case "release":
				return verdict{delay: time.Second}
			}
			return verdict{}
		})
		ctx, cancel := context.WithTimeout(context.Background(), 40*time.Second)
		defer cancel()
		if _, err := c.Acquire(ctx, "k"); !errors.Is(err, context.DeadlineExceeded) || !isOwnRelease(err) {
			t.Errorf("%v, want that the release is not answered", err)
		}
		if n := len(f.seen("acquire")) + len(f.seen("wait")); n < 3 || len(f.seen("release")) == 0 || c.Stats().Unresolved > 0 {
			t.Errorf("%d attempts, %d undos, %d left", n, len(f.seen("release")), c.Stats().Unresolved)
		}
	})
}

// TestOwnAttemptUndoneMeanwhile: a refusal that takes its time may be by a hold that is undone when it arrives.
func TestOwnAttemptUndoneMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		c := newClient(t, f)
		f.set(func(q call) verdict {
			switch {
			case q.op == "release":
				return verdict{delay: time.Second}
			case q.op == "acquire" && q.n == 0:
				return verdict{err: silent(false), delay: time.Second, apply: true}
			}
			return verdict{slow: 26500 * time.Millisecond}
		})
		if _, err := c.TryAcquire(context.Background(), "k"); !isOwnRelease(err) {
			t.Errorf("%v, want that the release is not answered", err)
		}
		if n := c.Stats().Unresolved; n > 0 || len(f.seen("release")) == 0 {
			t.Errorf("%d left after %d undos", n, len(f.seen("release")))
		}
	})
}

// TestOwnPlaceIsNotAHolder: a caller left the line when the key had been passed to it, and that is not answered. Nobody has the key. While
// another program has it, that is told.
func TestOwnPlaceIsNotAHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		this, other := newClient(t, f, rowlock.Options{Owner: "this"}), newClient(t, f.Store, rowlock.Options{Owner: "other"})
		theirs := acquire(t, other, "k")
		f.set(on("release", verdict{delay: time.Second}))
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		if _, err := this.Acquire(ctx, "k"); !errors.Is(err, rowlock.ErrHeld) {
			t.Fatal(err)
		}
		if _, err := this.TryAcquire(context.Background(), "k"); !errors.Is(err, rowlock.ErrHeld) {
			t.Errorf("TryAcquire of what another has: %v", err)
		}
		release(t, theirs)
		if _, err := this.TryAcquire(context.Background(), "k"); !isOwnRelease(err) {
			t.Errorf("TryAcquire of what was passed to a caller that has left: %v", err)
		}
		time.Sleep(2 * time.Second)
		release(t, acquire(t, this, "k"))
	})
}

// afterALeave is a client of which a caller has waited for the key of another program, and left: its leave is answered after a second. wait
// lets one more wait for a moment.
func afterALeave(t *testing.T) (f *faultStore, this *rowlock.Client, theirs *rowlock.Lease, wait func() error) {
	t.Helper()
	f = newFaultStore()
	this = newClient(t, f, rowlock.Options{Owner: "this"})
	theirs = acquire(t, newClient(t, f.Store, rowlock.Options{Owner: "other"}), "k")
	f.set(on("release", verdict{delay: time.Second}))
	wait = func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		_, err := this.Acquire(ctx, "k")
		return err
	}
	if err := wait(); !errors.Is(err, rowlock.ErrHeld) {
		t.Fatal(err)
	}
	return f, this, theirs, wait
}

// TestP6_OwnPlaceEndedMeanwhile: the key was passed to the place of a caller that has left, and an attempt was refused for that. Whether
// the place is ended when the refusal is told, or when the holder is asked for, nobody has had the key. One that waits is told the same.
func TestP6_OwnPlaceEndedMeanwhile(t *testing.T) {
	for _, when := range []string{"before it is told", "before the holder is read"} {
		t.Run(when, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, this, theirs, _ := afterALeave(t)
				f.set(func(q call) verdict {
					switch {
					case q.op == "acquire" && when == "before it is told":
						return verdict{slow: 2 * time.Second}
					case q.op == "inspect" && when != "before it is told":
						return verdict{delay: 2 * time.Second}
					}
					return on("release", verdict{delay: time.Second})(q)
				})
				release(t, theirs)
				if _, err := this.TryAcquire(context.Background(), "k"); !isOwnRelease(err) {
					t.Errorf("P6: TryAcquire of what was passed to a caller that has left: %v", err)
				}
				f.set(nil)
				release(t, acquire(t, this, "k"))
			})
		})
	}
	t.Run("while one waits", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f, this, theirs, wait := afterALeave(t)
			if err := wait(); !errors.Is(err, rowlock.ErrHeld) {
				t.Fatal(err)
			}
			release(t, theirs)
			if err := wait(); !errors.Is(err, context.DeadlineExceeded) || !isOwnRelease(err) {
				t.Errorf("P6: Acquire of what was passed to a caller that has left: %v", err)
			}
			if _, err := this.AcquireAll(context.Background(), []rowlock.Want{{Key: "k"}}, rowlock.NoWait()); !isOwnRelease(err) {
				t.Errorf("P6: AcquireAll of what was passed to a caller that has left: %v", err)
			}
			f.set(nil)
			release(t, acquire(t, this, "k"))
		})
	})
}

// TestOwnAttemptEndedMeanwhile: a refusal that does not say whose hold it met, by an attempt of this client that was executed after its
// undo. When the holder is asked for it has ended.
func TestOwnAttemptEndedMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		c := newClient(t, f)
		f.set(func(q call) verdict {
			switch {
			case q.op == "acquire" && q.n == 0:
				return verdict{err: silent(false), apply: true}
			case q.op == "release":
				return verdict{answer: []driver.Result{{Status: driver.Removed}}}
			case q.op == "inspect":
				return verdict{before: func(context.Context) error { f.Store.Expire("k"); return nil }}
			}
			return without(nil)(q)
		})
		if _, err := c.TryAcquire(context.Background(), "k"); !isOwnRelease(err) {
			t.Errorf("%v, want that the release is not answered", err)
		}
		f.set(nil)
	})
}

// TestP6_PlaceOfTheLastCaller: a caller was handed the key by another one of its program while an entry of it stood in the line. When it
// releases, the key is free: it is not passed to that entry, which nobody waits for.
func TestP6_PlaceOfTheLastCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		c, other := newClient(t, f), newClient(t, f.Store)
		f.set(func(q call) verdict {
			switch {
			case q.op == "acquire" && q.n == 0:
				return verdict{slow: 100 * time.Millisecond} // the next caller stands meanwhile
			case q.op == "release" && q.hold[0].Undo:
				return verdict{delay: 200 * time.Millisecond}
			}
			return verdict{}
		})
		first, second := make(chan *rowlock.Lease, 1), make(chan *rowlock.Lease, 1)
		go func() {
			l, _ := c.TryAcquire(context.Background(), "k")
			first <- l
		}()
		synctest.Wait()
		go func() {
			l, _ := c.Acquire(context.Background(), "k")
			second <- l
		}()
		synctest.Wait()
		if infos, err := f.Store.Inspect(context.Background(), []string{"k"}); err != nil || infos[0].Waiting != 1 {
			t.Fatalf("%+v, %v", infos, err)
		}
		for _, lease := range []chan *rowlock.Lease{first, second} {
			l := <-lease
			if err := l.Release(context.Background()); err != nil {
				t.Fatal(err)
			}
		}
		for who, c := range map[string]*rowlock.Client{"the same program": c, "another program": other} {
			l, err := c.TryAcquire(context.Background(), "k")
			if err != nil {
				t.Errorf("P6: a key that was released, tried by %s: %v", who, err)
				continue
			}
			l.Release(context.Background())
		}
	})
}
