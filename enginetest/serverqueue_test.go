package enginetest

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

// turnStore is a memory store whose server wakes the first of a line, as by named locks.
type turnStore struct {
	*memory.Store
	far   time.Duration // how long the news of a turn travels
	mu    sync.Mutex
	queue []chan struct{} // the first has the turn
	asked int
}

func (s *turnStore) Limits() driver.Limits {
	l := s.Store.Limits()
	l.Turns = true
	return l
}

func (s *turnStore) WaitTurn(ctx context.Context, _ string) (func(), error) {
	mine := make(chan struct{})
	s.mu.Lock()
	s.asked++
	s.queue = append(s.queue, mine)
	waited := len(s.queue) > 1
	if !waited {
		close(mine)
	}
	s.mu.Unlock()
	end := func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		i := slices.Index(s.queue, mine)
		s.queue = slices.Delete(s.queue, i, i+1)
		if i == 0 && len(s.queue) > 0 {
			close(s.queue[0])
		}
	}
	select {
	case <-mine:
		if waited {
			time.Sleep(s.far)
		}
		return end, nil
	case <-ctx.Done():
		end()
		return nil, ctx.Err()
	}
}

// waiting is how many are in the queue, with the one whose turn it is.
func (s *turnStore) waiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.queue)
}

// TestTurns: many programs that want a key get it in the order of the server's queue, each
// for about as long, and nobody is left out.
func TestTurns(t *testing.T) {
	for _, tc := range []struct {
		name              string
		programs, callers int
		hold              time.Duration
		share             float64 // most holds of a caller, to the least
		longest           time.Duration
	}{
		{"4 programs of 8", 4, 8, 20 * time.Millisecond, 1.6, time.Second},
		{"4 programs of 1", 4, 1, 20 * time.Millisecond, 1.6, 300 * time.Millisecond},
		{"64 programs of 4", 64, 4, 5 * time.Millisecond, 2, 2 * time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &turnStore{Store: memory.New()}
				ctx, cancel := context.WithCancel(context.Background())
				holds := make([]int, tc.programs*tc.callers)
				longest := make([]time.Duration, len(holds))
				var wg sync.WaitGroup
				for i := range tc.programs {
					c, err := rowlock.New(s, rowlock.Options{})
					if err != nil {
						t.Fatal(err)
					}
					defer c.Close(context.Background())
					for j := range tc.callers {
						wg.Go(func() {
							n := i*tc.callers + j
							for {
								since := time.Now()
								l, err := c.Acquire(ctx, "k")
								if err != nil {
									return
								}
								longest[n] = max(longest[n], time.Since(since))
								holds[n]++
								time.Sleep(tc.hold)
								l.Release(context.Background())
							}
						})
					}
				}
				time.Sleep(10 * time.Second) // they come to an order
				clear(holds)
				clear(longest)
				began := s.Statements()
				const seconds = 60
				time.Sleep(seconds * time.Second)
				statements := s.Statements() - began
				cancel()
				wg.Wait()
				sum := 0
				for _, n := range holds {
					sum += n
				}
				t.Logf("%d holds a second of %d, each caller %d to %d, longest wait %v, %.2f statements a hold",
					sum/seconds, time.Second/tc.hold, slices.Min(holds), slices.Max(holds), slices.Max(longest), float64(statements)/float64(sum))
				if slices.Min(holds) == 0 || float64(slices.Max(holds)) > tc.share*float64(slices.Min(holds)) {
					t.Errorf("holds of the callers differ too much")
				}
				if slices.Max(longest) > tc.longest {
					t.Errorf("the longest wait is %v, want at most %v", slices.Max(longest), tc.longest)
				}
				if sum < seconds*int(time.Second/tc.hold)*9/10 {
					t.Errorf("the key was free for too long")
				}
			})
		})
	}
}

// TestTurnIsGivenUp: a client that waits no more leaves the queue, and one that holds
// keeps its turn until its release.
func TestTurnIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &turnStore{Store: memory.New()}
		a, b := newClient(t, s), newClient(t, s)
		first := acquire(t, a, "k")
		if s.waiting() != 0 {
			t.Error("a key that is free needs no turn")
		}
		ctx, cancel := context.WithCancel(context.Background())
		gone := make(chan error)
		go func() { _, err := b.Acquire(ctx, "k"); gone <- err }()
		time.Sleep(time.Second)
		if s.waiting() != 1 {
			t.Errorf("%d clients in the queue, want the one that waits", s.waiting())
		}
		cancel()
		<-gone
		synctest.Wait()
		if s.waiting() != 0 {
			t.Error("a client that waits no more is in the queue")
		}
		got := make(chan *rowlock.Lease)
		go func() { defer close(got); got <- acquire(t, b, "k") }()
		time.Sleep(time.Second)
		first.Release(context.Background())
		second := <-got
		time.Sleep(time.Minute)
		if s.waiting() != 1 {
			t.Error("the turn ended before the release")
		}
		second.Release(context.Background())
		synctest.Wait()
		if s.waiting() != 0 {
			t.Error("the turn did not end with the release")
		}
	})
}

// TestTurnOfOneThatStandsStill: the key is free, and the client whose turn it is does not
// take it. Those behind it see that.
func TestTurnOfOneThatStandsStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &turnStore{Store: memory.New()}
		end, err := s.WaitTurn(context.Background(), "k")
		if err != nil {
			t.Fatal(err)
		}
		defer end()
		a, b := newClient(t, s), newClient(t, s)
		first := acquire(t, a, "k")
		got := make(chan *rowlock.Lease)
		go func() { defer close(got); got <- acquire(t, b, "k") }()
		time.Sleep(time.Minute)
		start := time.Now()
		first.Release(context.Background())
		(<-got).Release(context.Background())
		if d := time.Since(start); d > 2*time.Second {
			t.Errorf("granted %v after the release", d)
		}
		synctest.Wait()
		if s.waiting() != 1 {
			t.Error("a client that has had the key is in the queue")
		}
	})
}

// TestNobodyComesOutOfTurn: between a release and the attempt of the client whose turn it is
// the key is free for a while. A client that waits behind it and looks just then leaves it.
func TestNobodyComesOutOfTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const programs, hold, far = 8, 200 * time.Millisecond, 40 * time.Millisecond
		s := &turnStore{Store: memory.New(), far: far}
		ctx, cancel := context.WithCancel(context.Background())
		var mu sync.Mutex
		var order []int
		var wg sync.WaitGroup
		for i := range programs {
			c := newClient(t, s)
			wg.Go(func() {
				for {
					l, err := c.Acquire(ctx, "k")
					if err != nil {
						return
					}
					mu.Lock()
					order = append(order, i)
					mu.Unlock()
					time.Sleep(hold)
					l.Release(context.Background())
				}
			})
		}
		time.Sleep(10 * time.Minute)
		cancel()
		wg.Wait()
		inOrder := 0
		for i := programs; i < len(order); i++ {
			if order[i] == order[i-programs] {
				inOrder++
			}
		}
		if n := len(order); inOrder < n*9/10 {
			t.Errorf("%d of %d holds came in the order of the turns", inOrder, n)
		} else {
			t.Logf("%d of %d holds came in the order of the turns", inOrder, n)
		}
	})
}

// queueStore is a memory store with a queue in the server that grants.
type queueStore struct {
	*memory.Store
	turn    chan struct{} // lets the first try
	waiting chan struct{} // has a value for each
	full    bool          // the queue has no place
	asked   atomic.Int64
}

func (s *queueStore) Limits() driver.Limits {
	l := s.Store.Limits()
	l.Queue, l.Line = true, false
	return l
}

func (s *queueStore) AcquireWait(ctx context.Context, r driver.Request, begin func()) (driver.Result, error) {
	s.asked.Add(1)
	if s.full {
		return driver.Result{}, &driver.Error{NotApplied: true, Err: fmt.Errorf("full: %w", driver.ErrNoPlace)}
	}
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

// TestServerQueue: a caller waits in the server's queue and sends nothing; trust
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
		go func() { _, err := b.Acquire(ctx, "k"); gave <- err }() // never refused: it waits behind the first
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
		go func() { defer close(got); got <- acquire(t, b, "k", rowlock.NoRenew()) }()
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
		s := &queueStore{Store: memory.New(), full: true}
		a, _ := rowlock.New(s, rowlock.Options{})
		b, _ := rowlock.New(s, rowlock.Options{})
		ctx, cancel := context.WithCancel(context.Background())
		defer a.Close(ctx)
		defer b.Close(ctx)
		l := acquire(t, a, "k")
		got := make(chan *rowlock.Lease)
		go func() { defer close(got); got <- acquire(t, b, "k") }()
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
