package mysqllock

import (
	"testing"
	"time"

	"github.com/rowlock/rowlock/mysql/internal/conn"
	"github.com/rowlock/rowlock/mysql/internal/session"
)

// TestTripsOfAConnection: what is looked at costs no trip: a connection costs the SET and the look, one out of a
// program's pool where tables may have been made on it one statement more.
func TestTripsOfAConnection(t *testing.T) {
	everywhere(t, func(t *testing.T, l *lab) {
		own := l.store()
		theirs, err := New(l.db, l.options())
		must(t, err)
		t.Cleanup(func() { _ = theirs.Close() })
		for s, most := range map[*Store]uint64{own: 2, theirs: 3} {
			s.db.Control.Warm(t.Context(), conn.KillWait)
			pools := map[string]*conn.Pool{"acquires": s.db.Acquires, "releases": s.db.Releases, "transactions": s.guarded.Connections}
			if f, ok := s.strategy.(*session.ForUpdate); ok {
				pools["sessions"] = f.Sessions
			}
			if s.locks != nil {
				pools["named locks"] = s.locks.Sessions
			}
			must(t, s.db.Read(t.Context(), func(c *conn.Conn) error { _, err := s.db.Variables(t.Context(), c); return err })) // once a Store
			for name, pool := range pools {
				pool.CloseIdle()
				s.db.Background.Wait()
				before := s.Statements()
				c, err := pool.GetFor(t.Context(), time.Minute)
				must(t, err)
				if n := s.Statements() - before; n > most {
					t.Errorf("%s: %d statements for a connection, want at most %d", name, n, most)
				}
				c.Put()
			}
		}
	})
}
