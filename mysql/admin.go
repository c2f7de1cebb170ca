package mysqllock

import (
	"context"
	"fmt"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mysql/internal/conn"
)

// List reads the state of the keys that begin with prefix and come after the key
// after, in the order of their bytes, at most limit (at least 1) of them; an empty
// prefix means all keys. A key that was never locked, or whose row was removed, is
// not there; a free one whose row is still there is, with Held false. It waits for no
// lock; that it can tell which keys are Pinned it has the rows of free ones locked for a moment, for
// which the user needs the privilege UPDATE: without it no key is.
func (s *Store) List(ctx context.Context, prefix, after string, limit int) ([]driver.Info, error) {
	if limit < 1 {
		return nil, &driver.Error{Lasting: true, NotApplied: true, Err: fmt.Errorf("mysql: %w: limit %d of List: use at least 1", driver.ErrInvalid, limit)}
	}
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	return conn.Detached(ctx, s.db, "list", func(ctx context.Context) ([]driver.Info, error) {
		return s.strategy.List(ctx, prefix, after, limit)
	})
}

// ForceRelease ends whatever hold the key has, also one that has expired but was
// not taken yet, and MinHold. It raises the token, so that guarded transactions of
// the old holder that begin later fail; the holder itself learns of it at its next
// renewal, with the reason forced. The Info is the state before. A key without a
// hold is no error. Programs that wait keep their places.
//
// An open guarded transaction of the holder must end first: it is waited for until
// ctx ends, at most for a second, in a way that stops nobody; the error then says
// so. A key that many clients fight for is tried for five seconds.
func (s *Store) ForceRelease(ctx context.Context, key string) (driver.Info, error) {
	return s.force(ctx, key, nil)
}

// ForceReleaseIf is ForceRelease of seen.Key if the key still has the hold that seen, an answer
// of Inspect or List, tells of: its Hold and its Token; see driver.ForcerIf for readers and slots.
// Otherwise the error matches rowlock.ErrChanged, and nothing was changed.
func (s *Store) ForceReleaseIf(ctx context.Context, seen driver.Info) (driver.Info, error) {
	return s.force(ctx, seen.Key, &seen)
}

func (s *Store) force(ctx context.Context, key string, seen *driver.Info) (driver.Info, error) {
	if err := s.ready(ctx); err != nil {
		return driver.Info{}, err
	}
	if len(key) < 1 || len(key) > driver.MaxKey {
		return driver.Info{}, &driver.Error{Lasting: true, NotApplied: true, Err: fmt.Errorf("mysql: %w: force release of a key of %d bytes: use 1 to %d", driver.ErrInvalid, len(key), driver.MaxKey)}
	}
	return conn.Detached(ctx, s.db, fmt.Sprintf("force release of %q", key), func(ctx context.Context) (driver.Info, error) {
		return s.strategy.Force(ctx, key, seen)
	})
}
