package memory

import (
	"context"
	"fmt"
	"sort"
	"strings"
	"time"

	"github.com/rowlock/rowlock/driver"
)

func (s *Store) info(key string, r *row, now time.Time) driver.Info {
	i := driver.Info{Key: key, Owner: r.owner, Token: r.token, Since: r.acquiredAt, Wanted: r.hint(now)}
	if all := r.standing(now); len(all) > 0 {
		i.Waiting, i.WaitingSince = len(all), all[0].since
	}
	if r.phase != nil {
		r.phase.inform(&i, now)
		i.Pinned = !i.Held && len(s.open[key]) > 0
		return i
	}
	if left := r.until().Sub(now); left > 0 {
		i.Held, i.Kept, i.Left, i.Hold = true, !r.releasedAt.IsZero(), left, r.id
	} else {
		i.Pinned = len(s.open[key]) > 0
	}
	return i
}

// Inspect is called by the Client that rowlock.New makes. It implements driver.Store.
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

// List is called by the Client that rowlock.New makes. It implements driver.Lister.
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

// ForceRelease is called by the Client that rowlock.New makes. It implements driver.Forcer. A key without a hold is no error.
func (s *Store) ForceRelease(ctx context.Context, key string) (driver.Info, error) {
	return s.force(ctx, key, nil)
}

// ForceReleaseIf is called by the Client that rowlock.New makes. It implements driver.ForcerIf.
func (s *Store) ForceReleaseIf(ctx context.Context, seen driver.Info) (driver.Info, error) {
	return s.force(ctx, seen.Key, &seen)
}

func (s *Store) force(ctx context.Context, key string, seen *driver.Info) (driver.Info, error) {
	now, err := s.begin(ctx)
	if err != nil {
		return driver.Info{}, err
	}
	defer s.mu.Unlock()
	r := s.rows[key]
	before := driver.Info{Key: key}
	if r != nil {
		before = s.info(key, r, now)
	}
	if seen != nil && !r.has(before, *seen) {
		return before, &driver.Error{Lasting: true, NotApplied: true, Err: driver.ErrChanged}
	}
	if r == nil {
		return before, nil
	}
	live := r.id != (driver.HoldID{}) && r.releasedAt.IsZero() // one that has expired could be renewed
	if before.Held || live || r.phase != nil {
		r.id, r.token = driver.HoldID{}, nextToken(r.top(), now)
		r.releasedAt, r.keepUntil, r.phase = now, time.Time{}, nil
	}
	return before, nil
}

// has reports whether a row that is as now says has the hold or phase that was seen.
func (r *row) has(now, seen driver.Info) bool {
	switch {
	case r == nil || now.Token != seen.Token:
		return false
	case now.Held:
		return now.Hold == seen.Hold
	}
	return r.phase == nil && r.id == seen.Hold && r.id != (driver.HoldID{}) && r.releasedAt.IsZero() // expired: it could be renewed
}

// Reap is called by the Client that rowlock.New makes. It implements driver.Reaper. It takes any grace, because in memory no
// statement waits with an old token.
func (s *Store) Reap(ctx context.Context, olderThan time.Duration) (int, error) {
	now, err := s.begin(ctx)
	if err != nil {
		return 0, err
	}
	defer s.mu.Unlock()
	n := 0
	for k, r := range s.rows {
		death := r.death()
		if now.Sub(death) > olderThan && len(s.open[k]) == 0 && len(r.standing(now)) == 0 {
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
// a hold to end. Of a key with several holds (rowlock.Shared, rowlock.Slots) it ends all.
func (s *Store) Expire(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, now := s.rows[key], time.Now()
	if r == nil || r.phase != nil && len(r.phase.shares) == 0 || r.phase == nil && (!r.releasedAt.IsZero() || !r.expiresAt.After(now)) {
		return false
	}
	delete(s.open, key)
	*r = row{id: another, token: nextToken(r.top(), now), line: r.line, times: times{acquiredAt: now, expiresAt: now, releasedAt: now}}
	return true
}

// another is the hold ID that Expire leaves: nobody's.
var another = driver.HoldID{0: 0xff, 15: 0xff}
