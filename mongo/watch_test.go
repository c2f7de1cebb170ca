package mongolock

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/rowlock/rowlock/driver"
)

// next is the key that the stream says is free.
func next(t *testing.T, freed <-chan string) string {
	t.Helper()
	select {
	case key := <-freed:
		return key
	case <-time.After(30 * time.Second):
		t.Fatal("no event")
		return ""
	}
}

// TestWatch: the stream tells of releases of every kind and of nothing else.
func TestWatch(t *testing.T) {
	s := shared(t)
	freed, stop := watching(t, s)
	ctx := t.Context()
	hold := func(key string, keep time.Duration) driver.Hold {
		q := request(key)
		q.Keep = keep
		results, err := s.Acquire(ctx, []driver.Request{q})
		if err != nil || results[0].Status != driver.Granted {
			t.Fatalf("acquire %q: %+v, %v", key, results, err)
		}
		return holdOf(q, results[0])
	}
	// What must not pass: grants, renewals, refusals.
	a := hold("a\x00\xff", 0)
	for range 10 {
		if _, err := s.Renew(ctx, []driver.Hold{a}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Acquire(ctx, []driver.Request{request(a.Key)}); err != nil {
			t.Fatal(err)
		}
	}
	for range 10 { // now and then the server logs the whole document
		if _, err := s.Release(ctx, []driver.Hold{a}); err != nil {
			t.Fatal(err)
		}
		if key := next(t, freed); key != a.Key {
			t.Fatalf("event for %q", key)
		}
		a = hold(a.Key, 0)
	}
	b, c := hold("b", time.Hour), hold("c", 0)
	if _, err := s.Release(ctx, []driver.Hold{a, b}); err != nil {
		t.Fatal(err)
	}
	if x, y := next(t, freed), next(t, freed); x == y || x != a.Key && x != "b" || y != a.Key && y != "b" {
		t.Errorf("events for %q and %q", x, y)
	}
	if _, err := s.ForceRelease(ctx, c.Key); err != nil {
		t.Fatal(err)
	}
	if key := next(t, freed); key != "c" {
		t.Errorf("event for %q", key)
	}
	if err := stop(); !errors.Is(err, context.Canceled) {
		t.Errorf("Watch = %v", err)
	}
	select {
	case key := <-freed:
		t.Errorf("one event too many: %q", key)
	default:
	}
}

// TestWatchEnds: a stream that cannot go on says so.
func TestWatchEnds(t *testing.T) {
	s := shared(t)
	ended := make(chan error, 1)
	ready := make(chan struct{})
	go func() { ended <- s.Watch(t.Context(), func() { close(ready) }, func(string) {}) }()
	<-ready
	if err := s.db.Collection(s.leases).Drop(t.Context()); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		if err == nil || driver.IsLasting(err) {
			t.Errorf("Watch = %v", err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("the stream of a dropped collection goes on")
	}
}
