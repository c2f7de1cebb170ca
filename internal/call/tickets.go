package call

import (
	"context"
	"fmt"
	"time"

	"github.com/rowlock/rowlock/driver"
)

// PutTickets puts and renews tickets, at most Limits.Batch of them.
func (s *Store) PutTickets(by driver.Tickets, tickets []driver.Ticket, patience time.Duration) ([]driver.Place, error) {
	return asked(s, patience, len(tickets), len(tickets), func(ctx context.Context) ([]driver.Place, error) { return by.PutTickets(ctx, tickets) })
}

// RemoveTickets removes tickets, at most Limits.Batch of them.
func (s *Store) RemoveTickets(by driver.Tickets, tickets []driver.Ticket, patience time.Duration) error {
	_, err := asked(s, patience, len(tickets), 0, func(ctx context.Context) ([]driver.Place, error) { return nil, by.RemoveTickets(ctx, tickets) })
	return err
}

// asked makes one call about tickets, which has n answers.
func asked[T any](s *Store, patience time.Duration, tickets, n int, do func(context.Context) ([]T, error)) ([]T, error) {
	s.Work.more()
	defer s.Work.exit()
	s.calls.Add(1)
	ctx := s.within(patience)
	defer ctx.end()
	began := s.begun()
	answers, err := do(ctx)
	s.told("line", tickets, began, err)
	if err == nil && len(answers) != n {
		return nil, fmt.Errorf("the store gave %d answers for %d tickets", len(answers), n)
	}
	return answers, err
}

// AskLines asks who waits for keys, for a caller; see Ask.
func (s *Store) AskLines(ctx, stop context.Context, by driver.Tickets, keys []string, patience time.Duration) ([]driver.Line, error) {
	lines, err := Ask(s, ctx, stop, patience, "line", func(ctx context.Context) ([]driver.Line, error) {
		s.calls.Add(1)
		return by.Lines(ctx, keys)
	})
	if err == nil && len(lines) != len(keys) {
		return nil, fmt.Errorf("the store gave %d answers for %d keys", len(lines), len(keys))
	}
	return lines, err
}
