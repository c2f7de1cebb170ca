package line

import (
	"math"
	"strconv"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mysql/internal/conn"
	"github.com/rowlock/rowlock/mysql/internal/row"
)

// alive, of a ticket.
const alive = "expires_at>" + row.Now

// put puts new tickets, with the server's time as their place, and renews the others. The place
// of the new ones comes back as LAST_INSERT_ID: the time is that of the statement's start, so it
// is the same for all. A ticket that was removed comes back in its old place.
func (l *Line) put(tickets []driver.Ticket) conn.Statement {
	return func(t *conn.Text) {
		t.Add("INSERT INTO ", l.table, " (strategy,name,seq,ticket,expires_at) VALUES ")
		for i := range tickets {
			q := &tickets[i]
			if i > 0 {
				t.Add(",")
			}
			t.Add("(").Key(l.strategy).Add(",").Key(q.Key)
			if q.Seq == 0 {
				t.Add(",LAST_INSERT_ID(" + row.NowMicros + "),")
			} else {
				t.Add(",").Int(q.Seq).Add(",")
			}
			t.Bytes(q.ID[:]).Add("," + row.Now + "+INTERVAL ").Micros(driver.TicketTime).Add(" MICROSECOND)")
		}
		t.Add(" ON DUPLICATE KEY UPDATE expires_at=VALUES(expires_at)")
	}
}

// Touch writes a ticket that is over, of a key that there cannot be, the same row each time: it shows whether a commit goes through.
func (l *Line) Touch() string {
	return conn.NewText(200).Add("INSERT INTO ", l.table, " (strategy,name,seq,ticket,expires_at) VALUES (").Key(l.strategy).
		Add(",'',0,").Bytes(make([]byte, 16)).Add("," + row.Now + ") ON DUPLICATE KEY UPDATE expires_at=VALUES(expires_at)").String()
}

// remove removes tickets, each by its whole key, so that no other row is locked: where there are
// several a plan for a list of conditions may read the whole line, a look-up for each does not.
func (l *Line) remove(tickets []driver.Ticket) conn.Statement {
	return func(t *conn.Text) {
		t.Add("DELETE w FROM ")
		if len(tickets) == 1 {
			q := &tickets[0]
			t.Add(l.table, " AS w FORCE INDEX (PRIMARY) WHERE w.strategy=").Key(l.strategy).Add(" AND w.name=").Key(q.Key).
				Add(" AND w.seq=").Int(q.Seq).Add(" AND w.ticket=").Bytes(q.ID[:])
			return
		}
		t.Part(l.joined(tickets)).Add(" AND w.seq=d.s AND w.ticket=d.t")
	}
}

// joined looks up the tickets of the key of each of these, which are d.
func (l *Line) joined(tickets []driver.Ticket) conn.Statement {
	return func(t *conn.Text) {
		t.Add("(")
		for i := range tickets {
			q := &tickets[i]
			seq := q.Seq
			if seq == 0 {
				seq = math.MaxInt64
			}
			if i == 0 {
				t.Add("SELECT 0 AS i,").Key(q.Key).Add(" AS n,").Int(seq).Add(" AS s,").Bytes(q.ID[:]).Add(" AS t")
			} else {
				t.Add(" UNION ALL SELECT ", strconv.Itoa(i), ",").Key(q.Key).Add(",").Int(seq).Add(",").Bytes(q.ID[:])
			}
		}
		t.Add(") AS d STRAIGHT_JOIN ", l.table, " AS w FORCE INDEX (PRIMARY) ON w.strategy=").Key(l.strategy).Add(" AND w.name=d.n")
	}
}

// ahead counts the live tickets of others that stand before each of these, and says when the
// last of them is over and the place of the nearest. Of a ticket before which nobody stands there
// is no row.
func (l *Line) ahead(tickets []driver.Ticket) conn.Statement {
	return func(t *conn.Text) {
		t.Add("SELECT d.i,COUNT(*),MAX(TIMESTAMPDIFF(MICROSECOND," + row.Now + ",w.expires_at)),MAX(w.seq) FROM ").Part(l.joined(tickets)).
			Add(" WHERE w." + alive + " AND w.ticket<>d.t AND (w.seq<d.s OR w.seq=d.s AND w.ticket<d.t) GROUP BY d.i")
	}
}

// lines counts the live tickets of keys, and finds the first.
func (l *Line) lines(n int, key func(int) string) string {
	t := conn.NewText(300+64*n).Add("SELECT name,COUNT(*),MIN(seq) FROM ", l.table, " FORCE INDEX (PRIMARY) WHERE strategy=").
		Key(l.strategy).Add(" AND name IN ")
	return t.In(n, func(i int) { t.Key(key(i)) }).Add(" AND " + alive + " GROUP BY name").String()
}
