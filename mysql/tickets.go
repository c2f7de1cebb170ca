package mysqllock

import (
	"context"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mysql/internal/row"
)

// PutTickets implements driver.Tickets.
func (s *Store) PutTickets(ctx context.Context, tickets []driver.Ticket) ([]driver.Place, error) {
	if err := s.ready(ctx); err != nil || len(tickets) == 0 {
		return nil, err
	}
	return s.line.Put(ctx, tickets)
}

// RemoveTickets implements driver.Tickets. It wakes those who wait for the locks of the tickets
// (getlock).
func (s *Store) RemoveTickets(ctx context.Context, tickets []driver.Ticket) error {
	if err := s.ready(ctx); err != nil || len(tickets) == 0 {
		return err
	}
	if s.locks != nil {
		defer s.locks.Removed(tickets)
	}
	return s.line.Remove(ctx, tickets)
}

// Lines implements driver.Tickets.
func (s *Store) Lines(ctx context.Context, keys []string) ([]driver.Line, error) {
	if err := s.ready(ctx); err != nil || len(keys) == 0 {
		return nil, err
	}
	return s.line.Lines(ctx, keys)
}

// layout is what the Store needs of its tables.
func (s *Store) layout() []row.Layout { return append(s.strategy.Layout(), s.line.Layout()) }
