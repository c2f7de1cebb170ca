package mysqllock

import (
	"context"
	"fmt"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mysql/internal/share"
)

// Look is called by the Client that rowlock.New makes. It implements driver.Liner, of VersionColumn and UniqueInsert.
func (s *Store) Look(ctx context.Context, entries []driver.Entry) ([]driver.View, error) {
	if err := s.ready(ctx); err != nil || len(entries) == 0 {
		return nil, err
	}
	t, ok := s.strategy.(*share.Table)
	if !ok {
		return nil, &driver.Error{Lasting: true, NotApplied: true, Err: fmt.Errorf("mysql: %w: the keys of %s have no lines", driver.ErrNotSupported, s.options.Strategy)}
	}
	return t.Look(ctx, entries)
}
