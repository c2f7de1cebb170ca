package mysqllock

import (
	"testing"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mysql/internal/conn"
	"github.com/rowlock/rowlock/mysql/internal/session"
)

// Undos are one by one, and after an outage there are hundreds. However long they take, readers and slots are released meanwhile.
func TestP15_UndosLeaveAConnection(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, l *lab) {
		s := l.store()
		f := s.strategy.(*session.ForUpdate)
		reads := client{t: t, Store: s}.grant(reader("k", time.Minute))
		const undos = 8
		begun, over, ended := make(chan struct{}, undos), make(chan struct{}), make(chan error, undos)
		for range undos {
			go func() {
				ended <- f.UndoStep(patient(t), func(*conn.Conn) error {
					begun <- struct{}{}
					<-over
					return nil
				})
			}()
		}
		for range max(1, s.db.Releases.Max-1) {
			<-begun
		}
		select {
		case <-begun:
			t.Error("P15: undos use all connections for releases")
		case <-time.After(100 * time.Millisecond):
		}
		results, err := s.Release(patient(t), []driver.Hold{reads})
		close(over)
		for range undos {
			must(t, <-ended)
		}
		if err != nil || results[0].Status != driver.Released {
			t.Fatalf("P15: a reader was not released while undos were under way: %+v, %v", results, err)
		}
	})
}
