// Package memory keeps rowlock's locks in the memory of one process: for tests of programs that use rowlock, and to try it
// without a database.
//
//	store := memory.New()
//	locks, err := rowlock.New(store, rowlock.Options{})
//	if err != nil { … }
//	defer locks.Close(ctx)
//	err = rowlock.Do(ctx, locks, "report", func(ctx context.Context, lease *rowlock.Lease) error {
//		store.Expire("report") // the lock is lost now, as if this program had frozen
//		_ = lease.Renew(ctx)   // learns it at once, and not in ten seconds
//		return ctx.Err()       // the program under test should stop
//	})
//
// [Store.Expire] tests what a program does when it loses its lock, [Store.InTx] and [Store.Once] stand for those of the
// databases. There is an example below; docs/testing.md of the repository is the guide, and examples/hello a whole program.
//
// A Store keeps every rule of package driver and passes the same suite as the databases. It excludes only clients of the
// same *Store, so it is of no use between processes. Its clock is time.Now, for its clients too: in a testing/synctest
// bubble leases expire in the bubble's time.
package memory

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rowlock/rowlock/driver"
)

// Store is a lock space in memory. It is safe for concurrent use. Make it with New.
//
// # Methods for tests
//
// Expire ends a hold as if its program had stood still. InTx and Once are those of the
// databases, in memory. ForceRelease, List and Reap are a Client's too. Statements counts
// what a Client has asked.
//
// # Methods for the engine
//
// Acquire, Inspect, Limits, Look, Now, Release and Renew implement package driver: a
// rowlock.Client calls them.
type Store struct {
	mu         sync.Mutex
	start      time.Time
	rows       map[string]*row
	runs       map[runID]bool          // that have had their effects
	open       map[string]map[*tx]bool // transactions, by the key that they pin
	closed     bool
	statements atomic.Uint64
}

// row is one key. The zero hold ID is "ended by force".
type row struct {
	times
	id       driver.HoldID
	owner    string
	token    int64
	wantedBy uint32 // the hint
	wantedTo time.Time
	phase    *phase // nil: the last hold was exclusive
	line     []*entry
}

// times are those of one hold.
type times struct {
	acquiredAt time.Time
	expiresAt  time.Time
	keepUntil  time.Time
	releasedAt time.Time // zero while held
}

// New makes an empty lock space.
func New() *Store {
	return &Store{
		start: time.Now(), rows: make(map[string]*row),
		runs: make(map[runID]bool), open: make(map[string]map[*tx]bool),
	}
}

// Limits is called by the Client that rowlock.New makes. It implements driver.Store.
func (s *Store) Limits() driver.Limits {
	return driver.Limits{
		Batch: 1000, MinTTL: time.Millisecond, InFlight: 2, SlowBatch: time.Millisecond,
		Modes: driver.ModesOf(driver.Shared, driver.Slot), Line: true,
	}
}

// Now is called by the Client that rowlock.New makes. It implements driver.Clock.
func (s *Store) Now() time.Duration { return time.Since(s.start) }

// Statements counts the calls, each of which would be one statement.
func (s *Store) Statements() uint64 { return s.statements.Load() }

// Close makes every later call fail with an error that matches rowlock.ErrClosed.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return nil
}

// begin locks the store for one step.
func (s *Store) begin(ctx context.Context) (now time.Time, err error) {
	if err := ctx.Err(); err != nil {
		return now, &driver.Error{NotApplied: true, Err: err}
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return now, &driver.Error{Lasting: true, NotApplied: true, Err: fmt.Errorf("memory store: %w", driver.ErrClosed)}
	}
	s.statements.Add(1)
	return time.Now(), nil
}

// until is when the hold is over by itself, and what keeps the key after it.
func (t *times) until() time.Time {
	end := t.keepUntil
	if t.releasedAt.IsZero() && t.expiresAt.After(end) {
		end = t.expiresAt
	}
	return end
}

// keepShorter is what a release says of MinHold: less than the attempt said.
func (t *times) keepShorter(h driver.Hold) {
	if end := t.acquiredAt.Add(h.Keep); h.Keep > 0 && end.Before(t.keepUntil) {
		t.keepUntil = end
	}
}

// extend renews the hold, and says how long it goes on.
func (t *times) extend(h driver.Hold, now time.Time) time.Duration {
	end := now.Add(h.TTL)
	if h.MaxHold > 0 {
		if last := t.acquiredAt.Add(h.MaxHold); end.After(last) {
			end = last
		}
	}
	if end.After(t.expiresAt) {
		t.expiresAt = end
	}
	return t.expiresAt.Sub(now)
}

// nextToken follows the stored token and the clock, so that a reaped key goes on
// above its old tokens.
func nextToken(old int64, now time.Time) int64 {
	return max(old+driver.TokenRange, now.UnixMicro()*driver.TokenRange)
}

// Acquire is called by the Client that rowlock.New makes. It implements driver.Store.
func (s *Store) Acquire(ctx context.Context, reqs []driver.Request) ([]driver.Result, error) {
	now, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	results := make([]driver.Result, len(reqs))
	for i, q := range reqs {
		results[i] = s.acquire(q, now)
	}
	return results, nil
}

func (s *Store) acquire(q driver.Request, now time.Time) driver.Result {
	r := s.rows[q.Key]
	if r == nil {
		r = &row{}
		s.rows[q.Key] = r
	}
	if result, granted := r.granted(q, now); granted {
		return result
	}
	s.passOn(q.Key, r, now, q.ID)
	var result driver.Result
	if wait, from := mustWait(q.Mode, r.before(q.ID, now)); wait {
		info := s.info(q.Key, r, now)
		result = driver.Result{Status: driver.Held, Left: info.Left, Shared: info.InPhase()}
		if info.Held {
			result.Owner = r.owner
		}
		r.want(q, now)
	} else if result = s.take(r, q, from, now); result.Status == driver.Granted {
		r.leave(q.ID)
		s.passOn(q.Key, r, now, driver.HoldID{})
		r.show(&result, q.ID, now)
		return result
	}
	if q.Stand {
		r.stand(q, now)
	}
	r.show(&result, q.ID, now)
	return result
}

// granted is the answer to a request that has the key.
func (r *row) granted(q driver.Request, now time.Time) (driver.Result, bool) {
	if q.Mode != driver.Exclusive {
		if h := r.find(driver.Hold{ID: q.ID}); h != nil && h.expiresAt.After(now) {
			result := r.phase.granted(h)
			result.Left = h.expiresAt.Sub(now)
			return result, true
		}
	} else if r.id == q.ID && r.releasedAt.IsZero() && r.expiresAt.After(now) {
		return driver.Result{Status: driver.Granted, Token: r.token, Stored: r.token, Left: r.expiresAt.Sub(now)}, true
	}
	return driver.Result{}, false
}

// take grants a request if the key is free for it, whoever stands in the line. It takes no slot below from.
func (s *Store) take(r *row, q driver.Request, from int, now time.Time) driver.Result {
	if q.Mode != driver.Exclusive {
		return s.join(r, q, from, now)
	}
	if r.phase != nil {
		if result, refused := r.phase.refuses(q, now); refused {
			r.want(q, now)
			return result
		}
	} else if left := r.until().Sub(now); left > 0 {
		r.want(q, now)
		return driver.Result{Status: driver.Held, Left: left, Owner: r.owner}
	}
	if len(s.open[q.Key]) > 0 {
		return driver.Result{Status: driver.Pinned, Owner: r.owner, Gated: r.phase != nil && r.phase.gate == q.ID}
	}
	hint := r.hint(now)
	*r = row{
		times: times{acquiredAt: now, expiresAt: now.Add(q.TTL)},
		id:    q.ID, owner: q.Owner, token: nextToken(r.top(), now),
		wantedBy: r.wantedBy, wantedTo: r.wantedTo, line: r.line,
	}
	if hint.Client == q.Client {
		r.wantedBy = 0
	}
	if q.Keep > 0 {
		r.keepUntil = now.Add(q.Keep)
	}
	return driver.Result{Status: driver.Granted, Token: r.token, Stored: r.token, Wanted: r.hint(now)}
}

// gone says why a hold is not the row's live one.
func gone(r *row, id driver.HoldID) driver.Status {
	switch {
	case r == nil:
		return driver.Removed
	case r.id == id:
		return driver.Released
	case r.id == driver.HoldID{}:
		return driver.Forced
	}
	return driver.Taken
}

// Renew is called by the Client that rowlock.New makes. It implements driver.Store.
func (s *Store) Renew(ctx context.Context, holds []driver.Hold) ([]driver.Result, error) {
	now, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	results := make([]driver.Result, len(holds))
	for i, h := range holds {
		r := s.rows[h.Key]
		if h.Mode != driver.Exclusive {
			if found := r.find(h); found == nil {
				results[i].Status = goneShare(r, h)
			} else {
				results[i] = driver.Result{Status: driver.Alive, Left: found.extend(h, now)}
				found.confirm(h, &found.owner)
			}
			continue
		}
		if r == nil || r.id != h.ID || !r.releasedAt.IsZero() {
			results[i].Status = gone(r, h.ID)
			continue
		}
		results[i] = driver.Result{Status: driver.Alive, Left: r.extend(h, now)}
		r.confirm(h, &r.owner)
	}
	return results, nil
}

// confirm writes what a pass could not.
func (t *times) confirm(h driver.Hold, owner *string) {
	if !h.Confirm {
		return
	}
	*owner = h.Owner
	if until := t.acquiredAt.Add(h.Keep); h.Keep > 0 && until.After(t.keepUntil) {
		t.keepUntil = until
	}
}

// Release is called by the Client that rowlock.New makes. It implements driver.Store. An undo is final: nothing is ever on its way
// to a store in memory.
func (s *Store) Release(ctx context.Context, holds []driver.Hold) ([]driver.Result, error) {
	now, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	results := make([]driver.Result, len(holds))
	for i, h := range holds {
		r := s.rows[h.Key]
		if r != nil && r.leave(h.ID) {
			results[i] = driver.Result{Status: driver.Released, Final: true}
		} else if results[i] = r.release(h, now); results[i].Status != driver.Released {
			continue
		}
		if h.Next != nil {
			r.stand(*h.Next, now)
		}
		if !h.Guarded {
			s.passOn(h.Key, r, now, driver.HoldID{})
		}
		if h.Next != nil {
			r.show(&results[i], h.Next.ID, now)
		}
	}
	return results, nil
}

// release ends a hold.
func (r *row) release(h driver.Hold, now time.Time) driver.Result {
	if h.Mode != driver.Exclusive {
		return r.releaseShare(h, now)
	}
	if h.Undo {
		r.clearGate(h.ID)
	}
	if r == nil || r.id != h.ID || !r.releasedAt.IsZero() {
		return driver.Result{Status: gone(r, h.ID)}
	}
	r.releasedAt = now
	if h.Undo {
		r.keepUntil = time.Time{}
	} else {
		r.keepShorter(h)
	}
	return driver.Result{Status: driver.Released, Final: true, Wanted: r.hint(now)}
}

// hint is that of a client that waits.
func (r *row) hint(now time.Time) driver.Hint {
	left := r.wantedTo.Sub(now)
	if r.wantedBy == 0 || left <= 0 || left > driver.MaxHintTime {
		return driver.Hint{}
	}
	return driver.Hint{Client: r.wantedBy, Left: left}
}

// want leaves the hint of a client that was refused, unless there is another's.
func (r *row) want(q driver.Request, now time.Time) {
	present := r.hint(now)
	if q.Wants && q.Client > 0 && (present.Client == 0 || present.Client == q.Client && present.Left < driver.HintTime/2) {
		r.wantedBy, r.wantedTo = q.Client, now.Add(driver.HintTime)
	}
}
