package mysqllock

import (
	"context"
	"fmt"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/storekit"
	"github.com/rowlock/rowlock/mysql/internal/conn"
)

// Reap removes the rows of keys that have been free for longer than olderThan, and tickets of
// rowlock.Fair that have been over for as long, at
// most 500 a call, and tells how many; as many as 500 means that there may be
// more. It is housekeeping: rows that stay cost disk, nothing else. olderThan is
// at least an hour, otherwise the error matches rowlock.ErrInvalid. A row that
// somebody is using is left for the next time. Clients call it by themselves, see
// rowlock.Options.
func (s *Store) Reap(ctx context.Context, olderThan time.Duration) (int, error) {
	if olderThan < storekit.MinGrace {
		return 0, &driver.Error{Lasting: true, NotApplied: true, Err: fmt.Errorf("mysql: %w: Reap of rows older than %v: use at least %v, or tokens could go backwards", driver.ErrInvalid, olderThan, storekit.MinGrace)}
	}
	if err := s.ready(ctx); err != nil {
		return 0, err
	}
	return conn.Detached(ctx, s.db, "reap", func(ctx context.Context) (int, error) {
		n, err := s.strategy.Reap(ctx, olderThan)
		if err != nil || n >= driver.MaxReap {
			return n, err
		}
		tickets, err := s.line.Reap(ctx, olderThan, driver.MaxReap-n)
		return n + tickets, err
	})
}
