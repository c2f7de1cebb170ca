package enginetest

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/memory"
)

// TestReentrantOfModes: which lease has a view for whom.
func TestReentrantOfModes(t *testing.T) {
	exclusive, shared, slots := []rowlock.Option(nil), []rowlock.Option{rowlock.Shared()}, []rowlock.Option{rowlock.Slots(3)}
	for name, tc := range map[string]struct {
		has, wants []rowlock.Option
		err        error
	}{
		"exclusive in exclusive":       {exclusive, exclusive, nil},
		"a reader in exclusive":        {exclusive, shared, nil},
		"a slot in exclusive":          {exclusive, slots, rowlock.ErrSelfDeadlock},
		"exclusive in a reader":        {shared, exclusive, rowlock.ErrSelfDeadlock},
		"a reader in a reader":         {shared, shared, nil},
		"a slot in a reader":           {shared, slots, rowlock.ErrSelfDeadlock},
		"exclusive in a slot":          {slots, exclusive, rowlock.ErrSelfDeadlock},
		"a reader in a slot":           {slots, shared, rowlock.ErrSelfDeadlock},
		"a slot in a slot":             {slots, slots, nil},
		"a slot of more":               {slots, []rowlock.Option{rowlock.Slots(4)}, nil},
		"a slot of fewer":              {slots, []rowlock.Option{rowlock.Slots(2)}, rowlock.ErrInvalid},
		"a guarded reader in a reader": {shared, []rowlock.Option{rowlock.Shared(), rowlock.Guarded()}, rowlock.ErrInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFaultStore()
			c := newClient(t, f)
			l := acquire(t, c, "k", tc.has...)
			before := f.Statements()
			opts := append([]rowlock.Option{rowlock.Reentrant()}, tc.wants...)
			v, err := c.Acquire(l.Context(context.Background()), "k", opts...)
			w, err2 := c.TryAcquire(l.Context(context.Background()), "k", opts...)
			if !errors.Is(err, tc.err) || !errors.Is(err2, tc.err) {
				t.Fatalf("%v and %v, want %v", err, err2, tc.err)
			}
			if n := f.Statements() - before; n != 0 {
				t.Errorf("%d statements were sent", n)
			}
			if tc.err != nil {
				return
			}
			if v.Token() != l.Token() || v.Slot() != l.Slot() {
				t.Errorf("a view has token %d and slot %d, its lease %d and %d", v.Token(), v.Slot(), l.Token(), l.Slot())
			}
			release(t, w)
			release(t, l)
			if !errors.Is(v.Err(), rowlock.ErrReleased) {
				t.Errorf("the view after the end of its lease: %v", v.Err())
			}
		})
	}
}

// TestViewOfASharedHold: of several readers on one hold each has views of its own, which end
// with it and not with the hold; and a view marks it for a guard as its lease does.
func TestViewOfASharedHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		c := newClient(t, s)
		a, b := acquire(t, c, "k", rowlock.Shared()), acquire(t, c, "k", rowlock.Shared())
		before := s.Statements()
		va, vb := view(t, c, a.Context(context.Background()), rowlock.Shared()), view(t, c, b.Context(context.Background()), rowlock.Shared())
		release(t, a)
		if s.Statements() != before || b.Err() != nil || vb.Err() != nil {
			t.Errorf("the release of one reader: %d statements, the other %v, its view %v", s.Statements()-before, b.Err(), vb.Err())
		}
		if !errors.Is(va.Err(), rowlock.ErrReleased) {
			t.Errorf("the view of a reader that was released: %v", va.Err())
		}
		if err := s.InTx(context.Background(), vb, func(context.Context) error { return nil }); err != nil {
			t.Errorf("a guard through a view: %v", err)
		}
		if err := s.InTx(context.Background(), va, func(context.Context) error { return nil }); !errors.Is(err, rowlock.ErrReleased) {
			t.Errorf("a guard through a view of a released reader: %v", err)
		}
		before = s.Statements()
		release(t, acquire(t, c, "k", rowlock.Shared())) // joins nothing that was guarded
		if n := s.Statements() - before; n != 2 {
			t.Errorf("a reader beside a guarded one: %d statements, want a hold of its own", n)
		}
		release(t, b)
	})
}

// TestCloseUnderAViewOfAReader: Close leaves a shared hold to the function of Do that has a view
// of one of its readers, and ends it for the other readers.
func TestCloseUnderAViewOfAReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		c := newClient(t, f)
		a, b := acquire(t, c, "k", rowlock.Shared()), acquire(t, c, "k", rowlock.Shared())
		end := make(chan struct{})
		ran := make(chan error, 1)
		go func() {
			ran <- rowlock.Do(a.Context(context.Background()), c, "k", func(context.Context, *rowlock.Lease) error {
				<-end
				return a.Err()
			}, rowlock.Shared(), rowlock.Reentrant())
		}()
		time.Sleep(time.Second)
		closing := make(chan error, 1)
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		go func() { closing <- c.Close(ctx) }()
		time.Sleep(9 * time.Second) // the other leases are ended before ctx
		if got := reason(b.Err()); got != rowlock.ReasonClosed {
			t.Errorf("a reader under which no function runs: %v", b.Err())
		}
		taken(t, f, "k")
		close(end)
		if err := <-ran; err != nil {
			t.Errorf("the lease was lost under a function: %v", err)
		}
		if err := <-closing; err != nil {
			t.Errorf("Close: %v", err)
		}
		free(t, f, "k")
	})
}
