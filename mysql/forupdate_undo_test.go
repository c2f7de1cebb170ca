package mysqllock

import (
	"testing"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mysql/internal/conn"
	"github.com/rowlock/rowlock/mysql/internal/session"
)

// Undos are one by one, and after an outage there are hundreds. However long they take, tickets are renewed meanwhile, so
// that a program which waits keeps its place, and releases go on.
func TestP23_UndosLeaveAConnection(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, l *lab) {
		s := l.store()
		f := s.strategy.(*session.ForUpdate)
		const undos = 8
		begun, over, ended := make(chan struct{}, undos), make(chan struct{}), make(chan error, undos)
		for range undos {
			go func() {
				ended <- f.UndoStep(within(t, 2*patience), func(*conn.Conn) error {
					begun <- struct{}{}
					<-over
					return nil
				})
			}()
		}
		for range max(1, s.db.Releases.Size()-1) {
			<-begun
		}
		select {
		case <-begun:
			t.Error("P23: undos use all connections for releases")
		case <-time.After(100 * time.Millisecond):
		}
		ticket := driver.Ticket{Key: "k", ID: newID()}
		_, err := s.PutTickets(within(t, patience/2), []driver.Ticket{ticket})
		close(over)
		for range undos {
			must(t, <-ended)
		}
		if err != nil {
			t.Fatalf("P23: a ticket was not renewed while undos were under way: %v", err)
		}
		must(t, s.RemoveTickets(within(t, time.Minute), []driver.Ticket{ticket}))
	})
}
