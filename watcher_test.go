package rowlock_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/memory"
)

// streamStore is a memory store that tells its clients of releases, as a change stream does.
type streamStore struct {
	*memory.Store
	delay time.Duration // of what the stream says, after the reply to the release

	mu      sync.Mutex
	streams map[*stream]bool
	opened  int
}

type stream struct {
	keys chan string
	fail chan error
}

func newStreamStore() *streamStore {
	return &streamStore{Store: memory.New(), streams: make(map[*stream]bool)}
}

func (s *streamStore) Release(ctx context.Context, holds []driver.Hold) ([]driver.Result, error) {
	results, err := s.Store.Release(ctx, holds)
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.streams {
		for _, h := range holds {
			c.keys <- h.Key
		}
	}
	return results, err
}

func (s *streamStore) Watch(ctx context.Context, ready func(), free func(string)) error {
	c := &stream{make(chan string, 100), make(chan error, 1)}
	s.mu.Lock()
	s.streams[c] = true
	s.opened++
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.streams, c)
	}()
	ready()
	for {
		select {
		case key := <-c.keys:
			time.Sleep(s.delay)
			free(key)
		case err := <-c.fail:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// breakAll ends every stream with err, and returns how many there were.
func (s *streamStore) breakAll(err error) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.streams {
		c.fail <- err
	}
	return len(s.streams)
}

// TestPush: a waiter is woken by the store and hardly probes; without the stream
// it probes as usual; the stream is open only while somebody waits.
func TestPush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newStreamStore()
		a, err := rowlock.New(p, rowlock.Options{})
		if err != nil {
			t.Fatal(err)
		}
		b, _ := rowlock.New(p, rowlock.Options{})
		defer a.Close(context.Background())
		defer b.Close(context.Background())
		got := func() <-chan *rowlock.Lease {
			c := make(chan *rowlock.Lease)
			go func() { defer close(c); c <- acquire(t, b, "k") }()
			return c
		}
		l := acquire(t, a, "k")
		wait := got()
		time.Sleep(time.Second)
		before := p.Statements()
		time.Sleep(20 * time.Second)
		if n := p.Statements() - before; n > 30 {
			t.Errorf("%d statements in 20 s beside an open stream", n)
		}
		start := time.Now()
		l.Release(context.Background())
		l = <-wait
		if d := time.Since(start); d != 0 {
			t.Errorf("woken after %v", d)
		}
		if p.opened != 1 {
			t.Errorf("opened %d streams", p.opened)
		}

		other := acquire(t, a, "other")
		l.Release(context.Background())
		l = acquire(t, a, "k")
		wait = got()
		synctest.Wait()
		if n := p.breakAll(errors.New("stream gone")); n != 1 {
			t.Errorf("%d streams are open while a caller waits", n)
		}
		time.Sleep(50 * time.Millisecond) // the stream is away for 100 ms at least
		start = time.Now()
		p.Store.Release(context.Background(), []driver.Hold{rowlock.HoldOf(l)}) // no stream tells of it
		l = <-wait
		if d := time.Since(start); d > 250*time.Millisecond {
			t.Errorf("without the stream woken after %v", d)
		}
		l.Release(context.Background())
		other.Release(context.Background())
		time.Sleep(time.Minute)
		if n := p.breakAll(nil); n != 0 {
			t.Errorf("%d streams are open though nobody waits", n)
		}
	})
}

// TestPushTurns: four clients with eight waiters each pass a key round: each
// release is a race of the three others, nobody is left out, and when only one is
// left it does not wait for others for long.
func TestPushTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newStreamStore()
		h.delay = time.Millisecond
		var mu sync.Mutex
		var held [4]int
		var longest time.Duration
		passed, last := 0, -1
		const race, alone = 30 * time.Second, 10 * time.Second
		began := time.Now()
		var wg sync.WaitGroup
		for i := range held {
			c, err := rowlock.New(h, rowlock.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close(context.Background())
			for range 8 {
				wg.Go(func() {
					for since := time.Now(); since.Sub(began) < race || i == 0 && since.Sub(began) < race+alone; since = time.Now() {
						l := acquire(t, c, "k")
						mu.Lock()
						longest = max(longest, time.Since(since))
						held[i]++
						if last != i {
							passed++
						}
						last = i
						mu.Unlock()
						time.Sleep(20 * time.Millisecond)
						l.Release(context.Background())
					}
				})
			}
		}
		time.Sleep(race)
		synctest.Wait()
		mu.Lock()
		t.Logf("held %v, passed %d times, longest wait %v", held, passed, longest)
		if n := float64(h.Statements()) / float64(passed); n > 4.5 {
			t.Errorf("%.1f statements a hand-over", n)
		}
		if slices.Max(held[:]) > 2*slices.Min(held[:]) || longest > 2500*time.Millisecond {
			t.Errorf("holds of each client %v, the longest wait %v", held, longest)
		}
		before := held[0]
		mu.Unlock()
		wg.Wait()
		if n := held[0] - before; n < 420 {
			t.Errorf("a client alone got the key %d times in %v at 20 ms each", n, alone)
		}
	})
}
