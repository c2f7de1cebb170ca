package mysqllock

import (
	"fmt"
	"testing"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/testserver"
)

// TestP23_TicketsOfOthersKeepNobodyWaiting: what a client says of its tickets locks its own
// rows only, so that clients of one line do not wait for each other.
func TestP23_TicketsOfOthersKeepNobodyWaiting(t *testing.T) {
	for _, kind := range []string{testserver.MySQL, testserver.MariaDB} {
		t.Run(kind, func(t *testing.T) {
			l := newLab(t, kind, VersionColumn)
			s := l.store()
			ctx := within(t, patience)
			var own, others []driver.Ticket
			for i := range 5 { // enough for a plan that reads the whole line
				for range 4 {
					others = append(others, driver.Ticket{Key: fmt.Sprint("k", i), ID: newID()})
				}
				own = append(own, driver.Ticket{Key: fmt.Sprint("k", i), ID: newID()})
			}
			place := func(tickets []driver.Ticket) {
				t.Helper()
				places, err := s.PutTickets(ctx, tickets)
				must(t, err)
				for i, p := range places {
					tickets[i].Seq = p.Seq
				}
			}
			place(others[:10])
			place(own)
			place(others[10:])
			tx, err := l.db.Begin()
			must(t, err)
			defer tx.Rollback()
			for _, q := range others {
				_, err := tx.Exec(fmt.Sprintf("UPDATE rowlock_wait SET expires_at='2000-01-01' WHERE strategy='version' AND name=x'%x' AND seq=%d AND ticket=x'%x'", q.Key, q.Seq, q.ID[:]))
				must(t, err)
			}
			fresh := []driver.Ticket{{Key: "k0", ID: newID()}, {Key: "k3", ID: newID()}}
			place(fresh)
			place(own)
			place(own[:1])
			_, err = s.Lines(ctx, []string{"k0", "k1"})
			must(t, err)
			must(t, s.RemoveTickets(ctx, own[:1]))
			must(t, s.RemoveTickets(ctx, own))
			must(t, s.RemoveTickets(ctx, fresh))
			n := 0
			must(t, l.db.QueryRow("SELECT COUNT(*) FROM rowlock_wait").Scan(&n))
			if n != len(others) {
				t.Errorf("P23: %d tickets are left, want the %d of others", n, len(others))
			}
		})
	}
}
