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
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rowlock/rowlock/driver"
)

// Store is a lock space in memory. It is safe for concurrent use.
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
	id         driver.HoldID
	owner      string
	token      int64
	acquiredAt time.Time
	expiresAt  time.Time
	keepUntil  time.Time
	releasedAt time.Time // zero while held
	wantedBy   uint32    // the hint
	wantedTo   time.Time
}

// New makes an empty lock space.
func New() *Store {
	return &Store{
		start: time.Now(), rows: make(map[string]*row),
		runs: make(map[runID]bool), open: make(map[string]map[*tx]bool),
	}
}

// Limits implements driver.Store.
func (s *Store) Limits() driver.Limits {
	return driver.Limits{Batch: 1000, MinTTL: time.Millisecond, InFlight: 2, SlowBatch: time.Millisecond}
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

// until is when the key becomes free by itself.
func (r *row) until() time.Time {
	end := r.keepUntil
	if r.releasedAt.IsZero() && r.expiresAt.After(end) {
		end = r.expiresAt
	}
	return end
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
	if r.id == q.ID && r.releasedAt.IsZero() && !r.acquiredAt.IsZero() {
		return driver.Result{Status: driver.Granted, Token: r.token, Stored: r.token}
	}
	if left := r.until().Sub(now); left > 0 {
		r.want(q, now)
		return driver.Result{Status: driver.Held, Left: left, Owner: r.owner}
	}
	if len(s.open[q.Key]) > 0 {
		return driver.Result{Status: driver.Pinned, Owner: r.owner}
	}
	hint := r.hint(now)
	*r = row{
		id: q.ID, owner: q.Owner, token: nextToken(r.token, now), acquiredAt: now, expiresAt: now.Add(q.TTL),
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
		if r == nil || r.id != h.ID || !r.releasedAt.IsZero() {
			results[i].Status = gone(r, h.ID)
			continue
		}
		end := now.Add(h.TTL)
		if h.MaxHold > 0 {
			if last := r.acquiredAt.Add(h.MaxHold); end.After(last) {
				end = last
			}
		}
		if end.After(r.expiresAt) {
			r.expiresAt = end
		}
		results[i] = driver.Result{Status: driver.Alive, Left: r.expiresAt.Sub(now)}
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
		if r == nil || r.id != h.ID || !r.releasedAt.IsZero() {
			results[i] = driver.Result{Status: gone(r, h.ID)}
			continue
		}
		r.releasedAt = now
		if h.Undo {
			r.keepUntil = time.Time{}
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

func (s *Store) info(key string, r *row, now time.Time) driver.Info {
	i := driver.Info{Key: key, Owner: r.owner, Token: r.token, Since: r.acquiredAt, Wanted: r.hint(now)}
	if left := r.until().Sub(now); left > 0 {
		i.Held, i.Kept, i.Left, i.Hold = true, !r.releasedAt.IsZero(), left, r.id
	} else {
		i.Pinned = len(s.open[key]) > 0
	}
	return i
}

// Inspect implements driver.Store.
func (s *Store) Inspect(ctx context.Context, keys []string) ([]driver.Info, error) {
	now, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	infos := make([]driver.Info, len(keys))
	for i, k := range keys {
		infos[i].Key = k
		if r := s.rows[k]; r != nil {
			infos[i] = s.info(k, r, now)
		}
	}
	return infos, nil
}

// List implements driver.Lister.
func (s *Store) List(ctx context.Context, prefix, after string, limit int) ([]driver.Info, error) {
	if limit < 1 {
		return nil, fmt.Errorf("%w: limit %d of List: use at least 1", driver.ErrInvalid, limit)
	}
	now, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	var keys []string
	for k := range s.rows {
		if strings.HasPrefix(k, prefix) && k > after {
			keys = append(keys, k)
		}
	}
	sort.Strings(keys)
	keys = keys[:min(limit, len(keys))]
	infos := make([]driver.Info, len(keys))
	for i, k := range keys {
		infos[i] = s.info(k, s.rows[k], now)
	}
	return infos, nil
}

// ForceRelease implements driver.Forcer. A key without a hold is no error.
func (s *Store) ForceRelease(ctx context.Context, key string) (driver.Info, error) {
	now, err := s.begin(ctx)
	if err != nil {
		return driver.Info{}, err
	}
	defer s.mu.Unlock()
	r := s.rows[key]
	if r == nil {
		return driver.Info{Key: key}, nil
	}
	before := s.info(key, r, now)
	if before.Held || r.id != (driver.HoldID{}) && r.releasedAt.IsZero() { // one that has expired could be renewed
		r.id, r.token = driver.HoldID{}, nextToken(r.token, now)
		r.releasedAt, r.keepUntil = now, time.Time{}
	}
	return before, nil
}

// Reap implements driver.Reaper. It takes any grace, because in memory no
// statement waits with an old token.
func (s *Store) Reap(ctx context.Context, olderThan time.Duration) (int, error) {
	now, err := s.begin(ctx)
	if err != nil {
		return 0, err
	}
	defer s.mu.Unlock()
	n := 0
	for k, r := range s.rows {
		death := r.until()
		if r.releasedAt.After(death) {
			death = r.releasedAt
		}
		if now.Sub(death) > olderThan && len(s.open[k]) == 0 {
			delete(s.rows, k)
			if n++; n == driver.MaxReap {
				break
			}
		}
	}
	return n, nil
}

// Expire makes the database's clock run out for the present hold of key, as if
// its holder had been frozen for longer than the TTL and another had held the key
// meanwhile: the key is free for the next, and the holder learns of its loss at
// its next renewal (Lease.Renew makes one at once), with the reason taken. An open
// transaction under it (InTx, Once) does not pin the key any more and cannot commit. Use it
// to test what a program does when it loses a lease. It reports whether there was
// a hold to end.
func (s *Store) Expire(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, now := s.rows[key], time.Now()
	if r == nil || !r.releasedAt.IsZero() || !r.expiresAt.After(now) {
		return false
	}
	delete(s.open, key)
	*r = row{id: another, token: nextToken(r.token, now), acquiredAt: now, expiresAt: now, releasedAt: now}
	return true
}

// another is the hold ID that Expire leaves: nobody's.
var another = driver.HoldID{0: 0xff, 15: 0xff}
