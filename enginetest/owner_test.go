package enginetest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rowlock/rowlock"
)

// TestOwner: the owner of a call is what the database, a HeldError and Info show; without one
// it is that of the client.
func TestOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		c, other := newClient(t, f, rowlock.Options{Owner: "pod"}), newClient(t, f)
		for who, want := range map[string]string{"request 17": "request 17", "": "pod"} {
			l := acquire(t, c, "k", rowlock.Owner(who))
			if calls := f.seen("acquire"); calls[len(calls)-1].reqs[0].Owner != want {
				t.Errorf("Owner(%q): the store was given %q", who, calls[len(calls)-1].reqs[0].Owner)
			}
			var held *rowlock.HeldError
			if _, err := other.TryAcquire(context.Background(), "k"); !errors.As(err, &held) || held.Owner != want {
				t.Errorf("Owner(%q): refused with %v", who, err)
			}
			short, cancel := context.WithCancel(context.Background())
			done := make(chan error)
			go func() {
				_, err := c.Acquire(short, "k")
				done <- err
			}()
			synctest.Wait()
			cancel()
			if err := <-done; !errors.As(err, &held) || held.Owner != want {
				t.Errorf("Owner(%q): a caller of the same client gave up with %v", who, err)
			}
			if info, err := c.Inspect(context.Background(), "k"); err != nil || info.Owner != want {
				t.Errorf("Owner(%q): Info has %q, %v", who, info.Owner, err)
			}
			_ = l.Release(context.Background())
		}
	})
}

// TestOwnerIsNotHandedOff: a released hold goes in memory only to a caller with the same owner:
// the database shows one.
func TestOwnerIsNotHandedOff(t *testing.T) {
	for name, c := range map[string]struct {
		first, second string
		handed        bool
	}{
		"one of its own behind none": {"", "b", false},
		"none behind one of its own": {"a", "", false},
		"another":                    {"a", "b", false},
		"the same":                   {"a", "a", true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFaultStore()
				a, b := two(t, newClient(t, f, rowlock.Options{Owner: "pod"}), 0, []rowlock.Option{rowlock.Owner(c.first)}, []rowlock.Option{rowlock.Owner(c.second)})
				if handed := holdOf(a).ID == holdOf(b).ID; handed != c.handed {
					t.Errorf("handed off: %v, want %v", handed, c.handed)
				}
				time.Sleep(time.Second) // a passed hold has its owner from its first renewal on
				info, err := f.Store.Inspect(context.Background(), []string{"k"})
				if want := map[bool]string{true: "pod", false: c.second}[c.second == ""]; err != nil || info[0].Owner != want {
					t.Errorf("the database shows %q, want %q (%v)", info[0].Owner, want, err)
				}
			})
		})
	}
}

// TestOwnerTooLong: nothing is sent, and the error names the length.
func TestOwnerTooLong(t *testing.T) {
	f := newFaultStore()
	c := newClient(t, f)
	_ = acquire(t, c, "k", rowlock.Owner(strings.Repeat("x", 255))).Release(context.Background())
	sent := len(f.seen("acquire"))
	_, err := c.Acquire(context.Background(), "k", rowlock.Owner(strings.Repeat("x", 256)))
	if !errors.Is(err, rowlock.ErrInvalid) || !strings.Contains(err.Error(), "256") {
		t.Errorf("an owner of 256 bytes: %v", err)
	}
	if len(f.seen("acquire")) != sent {
		t.Error("something was sent")
	}
}
