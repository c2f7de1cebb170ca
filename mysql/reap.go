package mysqllock

import (
	"context"
	"fmt"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mysql/internal/conn"
)

// Reap removes the rows of keys that have been free for longer than olderThan, at
// most 500 a call, and tells how many; as many as 500 means that there may be
// more. It is housekeeping: rows that stay cost disk, nothing else. olderThan is
// at least an hour, otherwise the error matches rowlock.ErrInvalid. A row that
// somebody is using is left for the next time. Clients call it by themselves, see
// rowlock.Options.
func (s *Store) Reap(ctx context.Context, olderThan time.Duration) (int, error) {
	if olderThan < driver.MinGrace {
		return 0, &driver.Error{Lasting: true, NotApplied: true, Err: fmt.Errorf("mysql: %w: Reap of rows older than %v: use at least %v, or tokens could go backwards", driver.ErrInvalid, olderThan, driver.MinGrace)}
	}
	if err := s.ready(ctx); err != nil {
		return 0, err
	}
	return conn.Detached(ctx, s.db, "reap", func(ctx context.Context) (int, error) {
		return s.strategy.Reap(ctx, olderThan)
	})
}
