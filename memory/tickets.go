package memory

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/rowlock/rowlock/driver"
)

// ticket is the place of a waiting client in the line of a key.
type ticket struct {
	id        driver.HoldID
	seq       int64 // when it came, in microseconds since 1970; no two have the same
	expiresAt time.Time
}

// before reports whether the ticket stands before one with that number and ID.
func (t *ticket) before(seq int64, id driver.HoldID) bool {
	return cmp.Or(cmp.Compare(t.seq, seq), slices.Compare(t.id[:], id[:])) < 0
}

// ahead is how many live tickets stand before a request, and until when.
func (s *Store) ahead(q driver.Request, now time.Time) (n int, left time.Duration) {
	if !q.Fair {
		return 0, 0
	}
	return s.aheadOf(driver.Ticket{Key: q.Key, ID: q.Ticket, Seq: q.Seq}, now)
}

func (s *Store) aheadOf(own driver.Ticket, now time.Time) (n int, left time.Duration) {
	for _, t := range s.tickets[own.Key] {
		if rest := t.expiresAt.Sub(now); rest > 0 && t.id != own.ID && (own.Seq == 0 || t.before(own.Seq, own.ID)) {
			n, left = n+1, max(left, rest)
		}
	}
	return n, left
}

// PutTickets implements driver.Tickets.
func (s *Store) PutTickets(ctx context.Context, tickets []driver.Ticket) ([]driver.Place, error) {
	now, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	places := make([]driver.Place, len(tickets))
	for i, q := range tickets {
		t := s.ticket(q)
		if t == nil {
			t = &ticket{id: q.ID, seq: q.Seq}
			if t.seq == 0 {
				s.lastSeq = max(s.lastSeq+1, now.UnixMicro())
				t.seq = s.lastSeq
			}
			s.tickets[q.Key] = append(s.tickets[q.Key], t)
		}
		t.expiresAt = now.Add(driver.TicketTime)
		q.Seq = t.seq
		places[i].Seq = t.seq
		places[i].Ahead, places[i].Left = s.aheadOf(q, now)
	}
	return places, nil
}

func (s *Store) ticket(q driver.Ticket) *ticket {
	for _, t := range s.tickets[q.Key] {
		if t.is(q) {
			return t
		}
	}
	return nil
}

func (t *ticket) is(q driver.Ticket) bool { return t.id == q.ID && t.seq == q.Seq }

// RemoveTickets implements driver.Tickets.
func (s *Store) RemoveTickets(ctx context.Context, tickets []driver.Ticket) error {
	if _, err := s.begin(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	for _, q := range tickets {
		s.removeTickets(q.Key, func(t *ticket) bool { return t.is(q) })
	}
	return nil
}

func (s *Store) removeTickets(key string, which func(*ticket) bool) {
	if s.tickets[key] = slices.DeleteFunc(s.tickets[key], which); len(s.tickets[key]) == 0 {
		delete(s.tickets, key)
	}
}

// reapTickets removes tickets that were over at that time.
func (s *Store) reapTickets(at time.Time) {
	for key := range s.tickets {
		s.removeTickets(key, func(t *ticket) bool { return t.expiresAt.Before(at) })
	}
}

// Lines implements driver.Tickets.
func (s *Store) Lines(ctx context.Context, keys []string) ([]driver.Line, error) {
	now, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	lines := make([]driver.Line, len(keys))
	for i, key := range keys {
		lines[i] = s.line(key, now)
	}
	return lines, nil
}

func (s *Store) line(key string, now time.Time) (l driver.Line) {
	for _, t := range s.tickets[key] {
		if !t.expiresAt.After(now) {
			continue
		}
		if since := time.UnixMicro(t.seq).UTC(); l.Waiting == 0 || since.Before(l.Since) {
			l.Since = since
		}
		l.Waiting++
	}
	return l
}
