package mysqllock

import (
	"context"
	"errors"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mysql/internal/conn"
	"github.com/rowlock/rowlock/mysql/internal/getlock"
	"github.com/rowlock/rowlock/mysql/internal/session"
)

// AcquireWait implements driver.Queuer where Limits.Queue says so. Under
// SelectForUpdate the waiter is in the server's own queue for the row lock, with a session of its own, and has it within a
// millisecond of its release or of the holder's death. It looks up from the queue
// every five seconds, and then is at its end again. Readers and slots wait so for an
// exclusive hold, and need the session no longer when they have the key.
//
// Order: MariaDB serves in the order of arrival; MySQL may prefer a waiter that
// itself keeps others waiting (its CATS scheduling:
// https://dev.mysql.com/doc/refman/9.7/en/innodb-transaction-scheduling.html). Of those that
// are Fair only the first of the line is in it; the others follow each other (getlock).
func (s *Store) AcquireWait(ctx context.Context, r driver.Request, begin func()) (driver.Result, error) {
	if err := s.ready(ctx); err != nil {
		return driver.Result{}, err
	}
	keep, ok := s.strategy.(*session.ForUpdate)
	if !ok {
		return driver.Result{}, &driver.Error{Lasting: true, NotApplied: true, Err: driver.ErrNotSupported}
	}
	granted, first := false, false
	if r.Fair && r.Seq > 0 && r.Mode == driver.Exclusive && s.locks != nil {
		place, err := s.locks.Follow(ctx, r.Key, s.place(driver.Ticket{Key: r.Key, ID: r.Ticket, Seq: r.Seq}, driver.Place{}))
		if err != nil {
			return driver.Result{}, err
		}
		defer func() {
			if granted { // it ends when the ticket is removed, soon
				time.AfterFunc(driver.TicketTime, place.End)
			} else {
				place.End()
			}
		}()
		first = place.First
	}
	r.Fair = r.Fair && !first
	results, err := s.admitted(ctx, []driver.Request{r}, func(ctx context.Context, reqs []driver.Request) ([]driver.Result, error) {
		result := keep.AcquireWait(ctx, reqs[0], begin)
		if errors.Is(result.Err, driver.ErrNoPlace) {
			return nil, result.Err
		}
		return []driver.Result{result}, nil
	})
	if err != nil {
		return driver.Result{}, err
	}
	granted = results[0].Status == driver.Granted
	return results[0], nil
}

// place is that of a ticket, of which at was said a moment ago.
func (s *Store) place(ticket driver.Ticket, at driver.Place) *getlock.Place {
	return &getlock.Place{
		Seq: ticket.Seq, Nearest: at.Nearest,
		Look: func(ctx context.Context, c *conn.Conn) (int64, error) { return s.line.Nearest(ctx, c, ticket) },
	}
}

// WaitTurn implements driver.Turner where Limits.Turns says so: see Options.WakeupConns.
// Clients with tickets follow each other: only the first of a line queues for the key's own named
// lock.
func (s *Store) WaitTurn(ctx context.Context, ticket driver.Ticket, place driver.Place) (driver.Turn, error) {
	if !s.Limits().Turns {
		return driver.Turn{}, getlock.ErrNoTurn(driver.ErrNotSupported)
	}
	if err := s.ready(ctx); err != nil {
		return driver.Turn{}, err
	}
	if ticket.Seq == 0 {
		return s.locks.Wait(ctx, ticket.Key, nil)
	}
	return s.locks.Wait(ctx, ticket.Key, s.place(ticket, place))
}
