package mongolock

import (
	"context"

	"github.com/rowlock/rowlock/driver"
)

// PutTickets implements driver.Tickets.
func (s *Store) PutTickets(ctx context.Context, tickets []driver.Ticket) ([]driver.Place, error) {
	if err := s.enter(ctx, "put tickets", len(tickets)); err != nil || len(tickets) == 0 {
		return nil, err
	}
	return s.line.Put(ctx, tickets)
}

// RemoveTickets implements driver.Tickets.
func (s *Store) RemoveTickets(ctx context.Context, tickets []driver.Ticket) error {
	if err := s.enter(ctx, "remove tickets", len(tickets)); err != nil || len(tickets) == 0 {
		return err
	}
	return s.line.Remove(ctx, tickets)
}

// Lines implements driver.Tickets.
func (s *Store) Lines(ctx context.Context, keys []string) ([]driver.Line, error) {
	if err := s.enter(ctx, "read tickets", len(keys)); err != nil || len(keys) == 0 {
		return nil, err
	}
	return s.line.Lines(ctx, keys)
}
