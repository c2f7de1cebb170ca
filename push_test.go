package rowlock_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/memory"
)

// pushStore is a memory store that tells of releases, as a change stream does.
type pushStore struct {
	*memory.Store
	free  chan string
	fail  chan error
	opens int
}

func (p *pushStore) Release(ctx context.Context, holds []driver.Hold) ([]driver.Result, error) {
	results, err := p.Store.Release(ctx, holds)
	for _, h := range holds {
		select {
		case p.free <- h.Key:
		default:
		}
	}
	return results, err
}

func (p *pushStore) Watch(ctx context.Context, ready func(), free func(string)) error {
	p.opens++
	ready()
	for {
		select {
		case key := <-p.free:
			free(key)
		case err := <-p.fail:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// TestPush: a waiter is woken by the store and hardly probes; without the stream
// it probes as usual; the stream is open only while somebody waits.
func TestPush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &pushStore{Store: memory.New(), free: make(chan string), fail: make(chan error)}
		a, err := rowlock.New(p, rowlock.Options{})
		if err != nil {
			t.Fatal(err)
		}
		b, _ := rowlock.New(p, rowlock.Options{})
		defer a.Close(context.Background())
		defer b.Close(context.Background())
		got := func() <-chan *rowlock.Lease {
			c := make(chan *rowlock.Lease)
			go func() { c <- acquire(t, b, "k") }()
			return c
		}
		l := acquire(t, a, "k")
		wait := got()
		time.Sleep(time.Second)
		before := p.Statements()
		time.Sleep(20 * time.Second)
		if n := p.Statements() - before; n > 30 {
			t.Errorf("%d statements in 20 s beside a live stream", n)
		}
		start := time.Now()
		l.Release(context.Background())
		l = <-wait
		if d := time.Since(start); d != 0 {
			t.Errorf("woken after %v", d)
		}
		if p.opens != 1 {
			t.Errorf("opened %d streams", p.opens)
		}

		other := acquire(t, a, "other")
		l.Release(context.Background())
		l = acquire(t, a, "k")
		wait = got()
		synctest.Wait()
		p.fail <- errors.New("stream gone")
		time.Sleep(50 * time.Millisecond) // the stream is away for 100 ms at least
		start = time.Now()
		p.Store.Release(context.Background(), []driver.Hold{rowlock.HoldOf(l)}) // nobody hears of it
		l = <-wait
		if d := time.Since(start); d > 250*time.Millisecond {
			t.Errorf("without the stream woken after %v", d)
		}
		l.Release(context.Background())
		other.Release(context.Background())
		time.Sleep(time.Minute)
		select {
		case p.free <- "k":
			t.Error("the stream is open though nobody waits")
		default:
		}
	})
}

// hub tells many clients of one memory store of each release.
type hub struct {
	*memory.Store
	mu      sync.Mutex
	streams map[chan string]bool
}

func (h *hub) Release(ctx context.Context, holds []driver.Hold) ([]driver.Result, error) {
	results, err := h.Store.Release(ctx, holds)
	h.mu.Lock()
	defer h.mu.Unlock()
	for c := range h.streams {
		for _, hold := range holds {
			c <- hold.Key
		}
	}
	return results, err
}

func (h *hub) Watch(ctx context.Context, ready func(), free func(string)) error {
	c := make(chan string, 100)
	h.mu.Lock()
	h.streams[c] = true
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.streams, c)
	}()
	ready()
	for {
		select {
		case key := <-c:
			time.Sleep(time.Millisecond) // after the reply
			free(key)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// TestPushTurns: four clients with eight waiters each pass a key round: each
// release is a race of the three others, nobody is left out, and when only one is
// left it does not wait for others for long.
func TestPushTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &hub{Store: memory.New(), streams: make(map[chan string]bool)}
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

func (s *queueStore) Limits() driver.Limits {
	l := s.Store.Limits()
	l.Queue = true
	return l
}

// queueStore is a memory store with a queue in the server.
type queueStore struct {
	*memory.Store
	turn    chan struct{} // who may look
	waiting chan struct{}
}

func (s *queueStore) AcquireWait(ctx context.Context, r driver.Request, begin func()) (driver.Result, error) {
	s.waiting <- struct{}{}
	defer func() { <-s.waiting }()
	for {
		select {
		case <-s.turn:
		case <-ctx.Done():
			return driver.Result{}, &driver.Error{NotApplied: true, Err: ctx.Err()}
		}
		begin()
		results, err := s.Store.Acquire(ctx, []driver.Request{r})
		if err != nil || results[0].Status == driver.Granted {
			return results[0], err
		}
	}
}

// TestServerQueue: a waiter stands in the server's queue and sends nothing; trust
// counts from its turn; one that gives up leaves the queue.
func TestServerQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &queueStore{Store: memory.New(), turn: make(chan struct{}), waiting: make(chan struct{}, 10)}
		a, _ := rowlock.New(s, rowlock.Options{})
		b, _ := rowlock.New(s, rowlock.Options{})
		defer a.Close(context.Background())
		defer b.Close(context.Background())
		l := acquire(t, a, "k", rowlock.TTL(time.Hour))
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		gave := make(chan error)
		go func() { _, err := b.Acquire(ctx, "k"); gave <- err }()
		synctest.Wait()
		before := s.Statements()
		go func() { _, err := b.Acquire(ctx, "k"); gave <- err }() // never refused: it stands behind the first
		for range 2 {
			if err := <-gave; !errors.Is(err, rowlock.ErrHeld) {
				t.Errorf("gave up with %v", err)
			}
		}
		synctest.Wait()
		if n := s.Statements() - before; n != 0 || len(s.waiting) != 0 {
			t.Errorf("%d statements, %d in the queue", n, len(s.waiting))
		}
		got := make(chan *rowlock.Lease)
		go func() { got <- acquire(t, b, "k", rowlock.NoRenew()) }()
		time.Sleep(10 * time.Minute) // many of its TTLs
		l.Release(context.Background())
		s.turn <- struct{}{}
		l = <-got
		start := time.Now()
		if l.Err() != nil {
			t.Fatal(l.Err())
		}
		<-l.Done()
		if d := time.Since(start); d != 27*time.Second {
			t.Errorf("trusted for %v after its turn", d)
		}
	})
}

// TestServerQueueHasNoPlace: waiters whose store has no place in the server's queue
// probe, and take turns with other programs, as without a queue.
func TestServerQueueHasNoPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fullStore{Store: memory.New()}
		a, _ := rowlock.New(s, rowlock.Options{})
		b, _ := rowlock.New(s, rowlock.Options{})
		ctx, cancel := context.WithCancel(context.Background())
		defer a.Close(ctx)
		defer b.Close(ctx)
		l := acquire(t, a, "k")
		got := make(chan *rowlock.Lease)
		go func() { got <- acquire(t, b, "k") }()
		time.Sleep(10 * time.Second)
		if n := s.Statements(); n < 50 || n > 400 || s.asked.Load() == 0 {
			t.Errorf("%d statements, asked for a place %d times", n, s.asked.Load())
		}
		start := time.Now()
		l.Release(ctx)
		(<-got).Release(ctx)
		if d := time.Since(start); d > 150*time.Millisecond {
			t.Errorf("granted %v after the release", d)
		}
		var holds [2]atomic.Int64
		var wg sync.WaitGroup
		for i, c := range []*rowlock.Client{a, b} {
			for range 3 {
				wg.Go(func() {
					for {
						l, err := c.Acquire(ctx, "k")
						if err != nil {
							return
						}
						holds[i].Add(1)
						time.Sleep(5 * time.Millisecond)
						l.Release(context.Background())
					}
				})
			}
		}
		time.Sleep(time.Minute)
		cancel()
		wg.Wait()
		if x, y := holds[0].Load(), holds[1].Load(); x < y/3 || y < x/3 {
			t.Errorf("%d and %d holds", x, y)
		}
	})
}

// fullStore is a memory store whose queue never has a place.
type fullStore struct {
	*memory.Store
	asked atomic.Int64
}

func (s *fullStore) Limits() driver.Limits {
	l := s.Store.Limits()
	l.Queue = true
	return l
}

func (s *fullStore) AcquireWait(context.Context, driver.Request, func()) (driver.Result, error) {
	s.asked.Add(1)
	return driver.Result{}, &driver.Error{NotApplied: true, Err: fmt.Errorf("full: %w", driver.ErrNoPlace)}
}
