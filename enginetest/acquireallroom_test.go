package enginetest

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/memory"
)

// boundedStore is a memory store where each hold needs one of a few connections, which stores may share.
type boundedStore struct {
	*memory.Store
	room *room
}

type room struct {
	mu    sync.Mutex
	most  int
	takes time.Duration // a batch of acquires
	used  map[driver.HoldID]bool
}

var errFull = errors.New("too many connections")

func (s boundedStore) Acquire(ctx context.Context, reqs []driver.Request) ([]driver.Result, error) {
	results := make([]driver.Result, len(reqs))
	for i, r := range reqs {
		s.room.mu.Lock()
		full := len(s.room.used) >= s.room.most
		if !full {
			s.room.used[r.ID] = true
		}
		s.room.mu.Unlock()
		if full {
			results[i].Err = &driver.Error{NotApplied: true, NoRoom: true, Err: errFull}
			continue
		}
		answer, err := s.Store.Acquire(ctx, []driver.Request{r})
		if err != nil {
			return nil, err
		}
		if results[i] = answer[0]; answer[0].Status != driver.Granted {
			s.leave(r.ID)
		}
	}
	time.Sleep(s.room.takes) // what it has is had for a while
	return results, nil
}

func (s boundedStore) Release(ctx context.Context, holds []driver.Hold) ([]driver.Result, error) {
	results, err := s.Store.Release(ctx, holds)
	for _, h := range holds {
		s.leave(h.ID)
	}
	return results, err
}

func (s boundedStore) leave(id driver.HoldID) {
	s.room.mu.Lock()
	defer s.room.mu.Unlock()
	delete(s.room.used, id)
}

func newRoom(most int) *room {
	return &room{most: most, takes: 10 * time.Millisecond, used: make(map[driver.HoldID]bool)}
}

// TestP22_NoRoomForBoth: two calls of AcquireAll for different keys, each of which there is room for, but not for both: each gets
// on, because it keeps nothing while it lacks room.
func TestP22_NoRoomForBoth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		database, room := memory.New(), newRoom(4)
		var wg sync.WaitGroup
		for _, keys := range [][]string{{"a1", "a2", "a3"}, {"b1", "b2", "b3"}} {
			c := newClient(t, boundedStore{database, room})
			wg.Go(func() {
				for range 5 {
					ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
					defer cancel()
					g, err := c.AcquireAll(ctx, rowlock.Keys(keys...))
					if err != nil {
						t.Errorf("P22: %v: %v", keys, err)
						return
					}
					time.Sleep(time.Second)
					_ = g.Release(ctx)
				}
			})
		}
		wg.Wait()
	})
}

// TestP22_NoRoomWhileItWaits: what AcquireAll has while it waits for a key that another holds it gives back when there is no room
// left for that key.
func TestP22_NoRoomWhileItWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		database, room := memory.New(), newRoom(3)
		other, c := newClient(t, boundedStore{database, room}), newClient(t, boundedStore{database, room})
		in := acquire(t, other, "b")
		got := make(chan error, 1)
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
			defer cancel()
			g, err := c.AcquireAll(ctx, rowlock.Keys("a", "b"))
			_ = g.Release(ctx)
			got <- err
		}()
		time.Sleep(5 * time.Second) // it has a, and waits for b
		room.mu.Lock()
		room.most = 2 // a and b are all that there is room for
		room.mu.Unlock()
		beside := acquireSoon(t, other, "z")
		_ = in.Release(context.Background())
		beside2 := acquireSoon(t, other, "y")
		_ = beside.Release(context.Background())
		_ = beside2.Release(context.Background())
		if err := <-got; err != nil {
			t.Errorf("P22: %v", err)
		}
	})
}

// TestNoRoomEndsWithItsContext: a call that never finds room ends with ctx, says why, and holds nothing, whether ctx ends in a pause or in
// a try.
func TestNoRoomEndsWithItsContext(t *testing.T) {
	for _, takes := range []time.Duration{10 * time.Millisecond, 5 * time.Second} {
		for range 10 {
			synctest.Test(t, func(t *testing.T) {
				room := newRoom(2)
				room.takes = takes
				c := newClient(t, boundedStore{memory.New(), room})
				ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
				defer cancel()
				_, err := c.AcquireAll(ctx, rowlock.Keys("a", "b", "c"))
				if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, errFull) || errors.Is(err, rowlock.ErrHeld) {
					t.Errorf("%v", err)
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				if n := len(room.used); n != 0 {
					t.Errorf("%d holds are left", n)
				}
			})
		}
	}
}

func acquireSoon(t *testing.T, c *rowlock.Client, key string) *rowlock.Lease {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	l, err := c.Acquire(ctx, key)
	if err != nil {
		t.Fatalf("%q: %v", key, err)
	}
	return l
}
