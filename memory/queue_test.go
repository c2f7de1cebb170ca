package memory

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/locktest"
)

// queueing is a program of a lock space whose server keeps those who wait, in order, and grants (driver.Queuer).
type queueing struct {
	trips
	waiting *inServer
}

// inServer is those who wait for each key.
type inServer struct {
	mu     sync.Mutex
	places map[string][]*int
}

func (q queueing) Limits() driver.Limits {
	l := q.trips.Limits()
	l.Line, l.Queue = false, true
	return l
}

// Acquire does not pass those who wait for a key that no phase has.
func (q queueing) Acquire(ctx context.Context, reqs []driver.Request) ([]driver.Result, error) {
	results := make([]driver.Result, len(reqs))
	var free []driver.Request
	var at []int
	for i, r := range reqs {
		infos, err := q.Inspect(ctx, []string{r.Key})
		if err != nil {
			return nil, err
		}
		q.waiting.mu.Lock()
		waits := len(q.waiting.places[r.Key]) > 0 && !infos[0].InPhase()
		q.waiting.mu.Unlock()
		if waits {
			results[i] = driver.Result{Status: driver.Held, Left: infos[0].Left, Owner: infos[0].Owner}
			continue
		}
		free, at = append(free, r), append(at, i)
	}
	found, err := q.trips.Acquire(ctx, free)
	for n, i := range at {
		if err == nil {
			results[i] = found[n]
		}
	}
	return results, err
}

func (q queueing) AcquireWait(ctx context.Context, r driver.Request, begin func()) (driver.Result, error) {
	w, place := q.waiting, new(int)
	w.mu.Lock()
	w.places[r.Key] = append(w.places[r.Key], place)
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		i := slices.Index(w.places[r.Key], place)
		w.places[r.Key] = slices.Delete(w.places[r.Key], i, i+1)
	}()
	for {
		w.mu.Lock()
		first := w.places[r.Key][0] == place
		w.mu.Unlock()
		if first {
			begin()
			results, err := q.trips.Acquire(ctx, []driver.Request{r})
			if err != nil {
				return driver.Result{}, err
			}
			if r := results[0]; r.Status != driver.Held || r.Shared {
				return r, nil
			}
		}
		select {
		case <-ctx.Done():
			return driver.Result{}, &driver.Error{NotApplied: true, Err: ctx.Err()}
		case <-time.After(time.Millisecond):
		}
	}
}

// TestConformanceOfAQueue: hints and gates, which a store without lines has, and the engine over such a store.
func TestConformanceOfAQueue(t *testing.T) {
	t.Parallel()
	locktest.RunVirtual(t, func(t testing.TB) locktest.Harness {
		h, waiting := virtual(t), &inServer{places: make(map[string][]*int)}
		open := h.Open
		h.Open = func(t testing.TB) driver.Store { return queueing{open(t).(trips), waiting} }
		return h
	})
}
