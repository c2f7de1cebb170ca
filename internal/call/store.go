package call

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/work"
)

// Store is a driver.Store as a client uses it. It is safe for concurrent use.
type Store struct {
	Work   work.Group
	Limits driver.Limits
	Now    func() time.Duration // the clock of trust

	// Called, if it is set, is told of each call when it was answered. It is set before the first.
	Called func(op string, keys int, took time.Duration, err error)

	store          driver.Store
	acquire        func(context.Context, []driver.Request) ([]driver.Result, error) // its methods
	renew, release func(context.Context, []driver.Hold) ([]driver.Result, error)

	life  context.Context // of every statement
	end   context.CancelFunc
	calls atomic.Uint64
}

// New wraps store, whose limits are limits. now is the client's clock.
func New(store driver.Store, limits driver.Limits, now func() time.Duration) *Store {
	s := &Store{
		Limits: limits, Now: now,
		store: store, acquire: store.Acquire, renew: store.Renew, release: store.Release,
	}
	s.life, s.end = context.WithCancel(context.Background())
	return s
}

// End cuts off every statement that is still under way.
func (s *Store) End() { s.end() }

// Ended is closed by End.
func (s *Store) Ended() <-chan struct{} { return s.life.Done() }

// Driver is the Store itself, for its optional abilities.
func (s *Store) Driver() driver.Store { return s.store }

// Statements is how many statements were sent: as the Store counts them, or else its
// calls.
func (s *Store) Statements() uint64 {
	if counter, ok := s.store.(driver.Counter); ok {
		return counter.Statements()
	}
	return s.calls.Load()
}

// Answers are the results of a call, one for each of its entries, with the clock read
// before it was sent and after it was answered.
type Answers struct {
	Results   []driver.Result
	Sent, Got time.Duration
	Err       error // of the call as a whole; each result has it too
}

// Acquire sends one call, whose answer is worth waiting for patience.
func (s *Store) Acquire(reqs []driver.Request, patience time.Duration) Answers {
	a := send(s, s.acquire, reqs, patience, "acquire", "requests")
	if s.life.Err() == nil {
		a.Err = withinTTL(a.Err)
		for i := range a.Results {
			a.Results[i].Err = withinTTL(a.Results[i].Err)
		}
	}
	return a
}

// Renew sends one call.
func (s *Store) Renew(holds []driver.Hold, patience time.Duration) Answers {
	return send(s, s.renew, holds, patience, "renew", "renewals")
}

// Release sends one call.
func (s *Store) Release(holds []driver.Hold, patience time.Duration) Answers {
	return send(s, s.release, holds, patience, "release", "releases")
}

// Undo sends one call: a release of holds whose grant is not known or not wanted.
func (s *Store) Undo(holds []driver.Hold, patience time.Duration) Answers {
	return send(s, s.release, holds, patience, "undo", "releases")
}

func send[Q any](s *Store, do func(context.Context, []Q) ([]driver.Result, error), qs []Q, patience time.Duration, op, what string) Answers {
	s.Work.Begin()
	defer s.Work.End()
	s.calls.Add(1)
	ctx := s.within(patience)
	a := Answers{Sent: s.Now()}
	a.Results, a.Err = do(ctx, qs)
	ctx.end()
	a.Got = s.Now()
	if a.Err == nil && len(a.Results) != len(qs) {
		a.Err = fmt.Errorf("the store gave %d answers for %d %s", len(a.Results), len(qs), what)
	}
	if a.Err != nil {
		a.Results = make([]driver.Result, len(qs))
		for i := range a.Results {
			a.Results[i].Err = a.Err
		}
	}
	if s.Called != nil {
		s.Called(op, len(qs), a.Got-a.Sent, a.Err)
	}
	return a
}

// begun and told time a call for Called.
func (s *Store) begun() (at time.Duration) {
	if s.Called != nil {
		at = s.Now()
	}
	return at
}

func (s *Store) told(op string, keys int, began time.Duration, err error) {
	if s.Called != nil {
		s.Called(op, keys, s.Now()-began, err)
	}
}

// Inspect reads the state of keys, at most Limits.Batch of them.
func (s *Store) Inspect(keys []string, patience time.Duration) ([]driver.Info, error) {
	s.Work.Begin()
	defer s.Work.End()
	ctx := s.within(patience)
	defer ctx.end()
	began := s.begun()
	infos, err := s.inspect(ctx, keys)
	s.told("inspect", len(keys), began, err)
	return infos, err
}

func (s *Store) inspect(ctx context.Context, keys []string) ([]driver.Info, error) {
	s.calls.Add(1)
	infos, err := s.store.Inspect(ctx, keys)
	if err == nil && len(infos) != len(keys) {
		err = fmt.Errorf("the store gave %d answers for %d keys", len(infos), len(keys))
	}
	return infos, err
}

// AcquireWait waits in the server's queue (driver.Queuer) until stop ends. The results
// of Answers are one; Sent is when the store last began what was granted, from which
// trust counts, not the beginning of the wait.
func (s *Store) AcquireWait(stop context.Context, q driver.Queuer, req driver.Request) Answers {
	s.Work.Begin()
	defer s.Work.End()
	s.calls.Add(1)
	var a Answers
	began := s.begun()
	r, err := q.AcquireWait(stop, req, func() { a.Sent = s.Now() })
	if err != nil {
		r, a.Err = driver.Result{Err: err}, err
	}
	a.Results, a.Got = []driver.Result{r}, s.Now()
	s.told("wait", 1, began, err)
	return a
}
