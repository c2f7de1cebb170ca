// Package memory is a lock store in one process's memory: for the tests of
// programs that use rowlock, and for the tests of rowlock's own engine.
//
// It keeps every rule of package driver and passes the same suite as the
// databases. It excludes only clients of the same *Store, so it is of no use
// between processes. Its clock is time.Now, also for the clients that use it: in
// a testing/synctest bubble leases expire in the bubble's time.
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
// Acquire, Inspect, Limits, Lines, Now, PutTickets, Release, RemoveTickets and Renew
// implement package driver: a rowlock.Client calls them.
type Store struct {
	mu         sync.Mutex
	start      time.Time
	rows       map[string]*row
	runs       map[runID]bool          // that have had their effects
	open       map[string]map[*tx]bool // transactions, by the key that they pin
	tickets    map[string][]*ticket    // of those who wait in order, by key
	lastSeq    int64                   // of the last ticket
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
		tickets: make(map[string][]*ticket),
	}
}

// Limits implements driver.Store.
func (s *Store) Limits() driver.Limits {
	return driver.Limits{
		Batch: 1000, MinTTL: time.Millisecond, InFlight: 2, SlowBatch: time.Millisecond,
		Modes: driver.ModesOf(driver.Shared, driver.Slot),
	}
}

// Now implements driver.Clock.
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

// Acquire implements driver.Store.
func (s *Store) Acquire(ctx context.Context, reqs []driver.Request) ([]driver.Result, error) {
	now, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	results := make([]driver.Result, len(reqs))
	for i, q := range reqs {
		if ahead, left := s.ahead(q, now); ahead > 0 {
			results[i] = driver.Result{Status: driver.Held, Ahead: ahead, Left: left}
			continue
		}
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
	if q.Mode != driver.Exclusive {
		return s.join(r, q, now)
	}
	if r.id == q.ID && r.releasedAt.IsZero() && !r.acquiredAt.IsZero() {
		return driver.Result{Status: driver.Granted, Token: r.token, Stored: r.token}
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
		wantedBy: r.wantedBy, wantedTo: r.wantedTo,
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

// Renew implements driver.Store.
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
			}
			continue
		}
		if r == nil || r.id != h.ID || !r.releasedAt.IsZero() {
			results[i].Status = gone(r, h.ID)
			continue
		}
		results[i] = driver.Result{Status: driver.Alive, Left: r.extend(h, now)}
	}
	return results, nil
}

// Release implements driver.Store. An undo is final: nothing is ever on its way
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
		if h.Mode != driver.Exclusive {
			results[i] = r.releaseShare(h, now)
			continue
		}
		if h.Undo {
			r.clearGate(h.ID)
		}
		if r == nil || r.id != h.ID || !r.releasedAt.IsZero() {
			results[i] = driver.Result{Status: gone(r, h.ID)}
			continue
		}
		r.releasedAt = now
		if h.Undo {
			r.keepUntil = time.Time{}
		} else {
			r.keepShorter(h)
		}
		results[i] = driver.Result{Status: driver.Released, Final: true}
		results[i].Wanted = r.hint(now)
	}
	return results, nil
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
