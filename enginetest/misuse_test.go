package enginetest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/internal/misuse"
	"github.com/rowlock/rowlock/memory"
)

// TestMisuse: a user's mistake is answered in words that say what to do, and nothing is said twice. What only a server can
// answer is in the tests of the stores.
func TestMisuse(t *testing.T) {
	ctx := context.Background()
	store := memory.New()
	c := newClient(t, store, rowlock.Options{Owner: "web-1:4711"})
	held := acquire(t, c, "held")
	fails := func(_ any, err error) error { return err }
	soon, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	released := acquire(t, c, "released")
	if err := released.Release(ctx); err != nil {
		t.Fatal(err)
	}
	closed, err := rowlock.New(memory.New(), rowlock.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := closed.Close(ctx); err != nil {
		t.Fatal(err)
	}
	var noStore *memory.Store
	var noClient *rowlock.Client
	var noLease *rowlock.Lease
	work := func(context.Context, *rowlock.Lease) error { return nil }

	misuse.Judge(t,
		misuse.Answer("a key that this program holds, with a deadline", fails(c.Acquire(soon, "held")), rowlock.ErrHeld, `"held" is held by web-1:4711`, "deadline exceeded"),
		misuse.Answer("a key that this program holds, once", fails(c.TryAcquire(ctx, "held")), rowlock.ErrHeld, `"held" is held by web-1:4711`),
		misuse.Answer("the same key again, with the lease's context", fails(c.Acquire(held.Context(ctx), "held")), rowlock.ErrSelfDeadlock, "this context already holds the key"),
		misuse.Answer("no store", fails(rowlock.New(nil, rowlock.Options{})), rowlock.ErrInvalid, "the store is nil"),
		misuse.Answer("a store whose error was not looked at", fails(rowlock.New(noStore, rowlock.Options{})), rowlock.ErrInvalid, "was the error of the call that made it looked at?"),
		misuse.Answer("no client", fails(noClient.Acquire(ctx, "k")), rowlock.ErrInvalid, "the Client is nil"),
		misuse.Answer("no Locker", rowlock.Do(ctx, nil, "k", work), rowlock.ErrInvalid, "the Locker is nil"),
		misuse.Answer("no function", rowlock.Do(ctx, c, "k", nil), rowlock.ErrInvalid, "the function is nil"),
		misuse.Answer("no option", fails(c.Acquire(ctx, "k", nil)), rowlock.ErrInvalid, "option 1 of 1 is nil: leave it out"),
		misuse.Answer("no lease", noLease.Renew(ctx), rowlock.ErrInvalid, "the Lease is nil: was the error of Acquire looked at?"),
		misuse.Answer("an empty key", fails(c.Acquire(ctx, "")), rowlock.ErrInvalid, "the key is empty: use 1 to 255 bytes"),
		misuse.Answer("a long key", fails(c.Acquire(ctx, string(make([]byte, 300)))), rowlock.ErrInvalid, "has 300 bytes: use at most 255", "a hash of it"),
		misuse.Answer("a TTL without its unit", fails(c.Acquire(ctx, "k", rowlock.TTL(30))), rowlock.ErrInvalid, "TTL 30ns: this store needs at least"),
		misuse.Answer("a negative TTL", fails(c.Acquire(ctx, "k", rowlock.TTL(-1))), rowlock.ErrInvalid, "TTL -1ns"),
		misuse.Answer("a margin above the TTL", fails(rowlock.New(store, rowlock.Options{TTL: time.Second, Margin: 2 * time.Second})), rowlock.ErrInvalid, "Margin 2s is not less than the TTL 1s"),
		misuse.Answer("MaxHold below the TTL", fails(c.Acquire(ctx, "k", rowlock.MaxHold(time.Second))), rowlock.ErrInvalid, "MaxHold 1s is under the TTL 30s"),
		misuse.Answer("Shared and Slots", fails(c.Acquire(ctx, "k", rowlock.Shared(), rowlock.Slots(3))), rowlock.ErrInvalid, "use one of them"),
		misuse.Answer("no slot", fails(c.Acquire(ctx, "k", rowlock.Slots(0))), rowlock.ErrInvalid, "Slots(0): use 1 to 1000"),
		misuse.Answer("a key twice", fails(c.AcquireAll(ctx, rowlock.Keys("a", "a"))), rowlock.ErrInvalid, `both of "a": name each key once`),
		misuse.Answer("NoWait with Lead", rowlock.Lead(ctx, c, "k", work, rowlock.NoWait()), rowlock.ErrInvalid, "leave it out"),
		misuse.Answer("Shared with Lead", rowlock.Lead(ctx, c, "k", work, rowlock.Shared()), rowlock.ErrInvalid, "leave it out"),
		misuse.Answer("a period of nothing", rowlock.Every(ctx, c, "k", 0, work), rowlock.ErrInvalid, "the period is 0s: use a positive time"),
		misuse.Answer("a released lease", released.Renew(ctx), rowlock.ErrReleased),
		misuse.Answer("a closed client", fails(closed.Acquire(ctx, "k")), rowlock.ErrClosed, `acquire "k"`),
	)
}

// TestNilLease: what Acquire and AcquireAll return beside an error can be asked: it is over, and a method is no panic.
func TestNilLease(t *testing.T) {
	var l *rowlock.Lease
	var g *rowlock.Group
	if l.Key() != "" || l.Token() != 0 || l.Slot() != -1 || !l.Until().IsZero() || l.Left() != 0 || g.Leases() != nil {
		t.Errorf("a nil Lease has %q, token %d, slot %d, until %v", l.Key(), l.Token(), l.Slot(), l.Until())
	}
	for _, parent := range []context.Context{nil, t.Context()} {
		for what, ctx := range map[string]context.Context{"lease": l.Context(parent), "group": g.Context(parent)} {
			if !errors.Is(ctx.Err(), context.Canceled) || !errors.Is(context.Cause(ctx), rowlock.ErrInvalid) {
				t.Errorf("the context of a nil %s: %v, cause %v", what, ctx.Err(), context.Cause(ctx))
			}
		}
	}
	for what, done := range map[string]<-chan struct{}{"lease": l.Done(), "group": g.Done()} {
		select {
		case <-done:
		default:
			t.Errorf("Done of a nil %s is open", what)
		}
	}
	if !errors.Is(l.Err(), rowlock.ErrInvalid) || !errors.Is(g.Err(), rowlock.ErrInvalid) || l.Release(t.Context()) != nil || g.Release(t.Context()) != nil {
		t.Errorf("Err %v, %v", l.Err(), g.Err())
	}
}

// TestNoAnswerWithinTheTTL: an attempt that only its TTL bounds is no end of the caller's context, who has none.
func TestNoAnswerWithinTheTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		c := newClient(t, f, rowlock.Options{})
		f.set(on("acquire", verdict{hang: true}))
		_, err := c.TryAcquire(context.Background(), "k")
		if err == nil || errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "no answer within the TTL") || strings.Contains(err.Error(), "deadline") {
			t.Errorf("TryAcquire: %v", err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if _, err := c.Acquire(ctx, "k"); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "no answer within the TTL") {
			t.Errorf("Acquire: %v", err)
		}
		f.set(nil)
		time.Sleep(2 * time.Minute)
	})
}
