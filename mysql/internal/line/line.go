package line

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/storekit"
	"github.com/rowlock/rowlock/mysql/internal/conn"
	"github.com/rowlock/rowlock/mysql/internal/row"
)

// Line is the tickets of one strategy. It is safe for concurrent use.
type Line struct {
	db              *conn.DB
	table, strategy string
}

// New is for the tickets in table of the strategy with that name.
func New(d *conn.DB, table, strategy string) *Line {
	return &Line{db: d, table: table, strategy: strategy}
}

// Layout is what is needed of the table.
func (l *Line) Layout() row.Layout {
	return row.Layout{Table: l.table, Columns: []string{"strategy", "name", "seq", "ticket", "expires_at"}}
}

func (l *Line) what(step string) string { return step + " in table " + l.table }

// byKey puts tickets into the order in which every statement locks their rows.
func byKey(tickets []driver.Ticket) storekit.Sorted[driver.Ticket] {
	return storekit.Sort(tickets, func(q driver.Ticket) string { return q.Key }, storekit.ByBytes)
}

// Put is driver.Tickets'.
func (l *Line) Put(ctx context.Context, tickets []driver.Ticket) ([]driver.Place, error) {
	sorted := byKey(tickets)
	var places []driver.Place
	err := l.db.StepAgain(ctx, l.db.Releases, func(c *conn.Conn) (err error) {
		places, err = l.putAll(ctx, c, sorted.Items)
		return err
	})
	if err != nil {
		return nil, conn.MaybeApplied(l.what("put tickets"), err) // some of them may stand
	}
	return storekit.Unsort(sorted, places), nil
}

func (l *Line) putAll(ctx context.Context, c *conn.Conn, tickets []driver.Ticket) (places []driver.Place, err error) {
	placed := append([]driver.Ticket(nil), tickets...)
	err = inParts(len(tickets), func(from, to int) error {
		res, err := l.exec(ctx, c, l.put(tickets[from:to]), to-from)
		if err != nil {
			return err
		}
		id, err := res.LastInsertId()
		if err != nil {
			return err
		}
		for i := from; i < to; i++ {
			if placed[i].Seq == 0 {
				if id <= 0 {
					return fmt.Errorf("the server gave no place to the ticket of %q: is there a proxy that hides LAST_INSERT_ID?", placed[i].Key)
				}
				placed[i].Seq = id
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if places, err = l.places(ctx, c, placed); err != nil {
		return nil, err
	}
	for i := range places {
		places[i].Seq = placed[i].Seq
	}
	return places, nil
}

// inParts runs f for all, or in halves where a statement is too large.
func inParts(n int, f func(from, to int) error) error {
	_, err := conn.InParts(0, n, func(from, to int) (map[string]bool, error) { return nil, f(from, to) })
	return err
}

// exec sends a statement about n tickets.
func (l *Line) exec(ctx context.Context, c *conn.Conn, s conn.Statement, n int) (sql.Result, error) {
	if n == 1 {
		return c.ExecOne(ctx, l.db.Bound(0), s)
	}
	return c.Exec(ctx, l.db.Bound(0), s.Literal())
}

// ahead is what stands before one of several tickets.
type ahead struct {
	i, n    int // which one; tickets before it
	left    conn.Int
	nearest conn.Int
}

// before reads what stands before tickets. Of one before which nobody stands there is nothing.
func (l *Line) before(ctx context.Context, c *conn.Conn, tickets []driver.Ticket) ([]ahead, error) {
	return conn.Query(ctx, c, 0, l.ahead(tickets).Literal(), func(rows *sql.Rows) (a ahead, err error) {
		err = rows.Scan(&a.i, &a.n, &a.left, &a.nearest)
		return a, err
	})
}

// Nearest reads on a connection the place of the nearest live ticket of another that stands before
// this one; 0: there is none.
func (l *Line) Nearest(ctx context.Context, c *conn.Conn, ticket driver.Ticket) (seq int64, err error) {
	found, err := l.before(ctx, c, []driver.Ticket{ticket})
	if err != nil || len(found) == 0 {
		return 0, err
	}
	return found[0].nearest.N, nil
}

// places reads what stands before tickets.
func (l *Line) places(ctx context.Context, c *conn.Conn, tickets []driver.Ticket) ([]driver.Place, error) {
	places := make([]driver.Place, len(tickets))
	err := inParts(len(tickets), func(from, to int) error {
		found, err := l.before(ctx, c, tickets[from:to])
		for _, a := range found {
			if a.i >= 0 && a.i < to-from {
				places[from+a.i] = driver.Place{Ahead: a.n, Nearest: a.nearest.N, Left: min(max(conn.Micros(a.left.N), time.Microsecond), driver.TicketTime)}
			}
		}
		return err
	})
	return places, err
}

// Places says what stands before tickets. A plain read, before an acquire.
func (l *Line) Places(ctx context.Context, tickets []driver.Ticket) (places []driver.Place, err error) {
	err = l.db.Step(ctx, l.db.Acquires, func(c *conn.Conn) (err error) {
		places, err = l.places(ctx, c, tickets)
		return err
	})
	return places, conn.NotSent(l.what("look for tickets"), err)
}

// Remove is driver.Tickets'.
func (l *Line) Remove(ctx context.Context, tickets []driver.Ticket) error {
	sorted := byKey(tickets)
	err := l.db.StepAgain(ctx, l.db.Releases, func(c *conn.Conn) error {
		return inParts(len(tickets), func(from, to int) error {
			_, err := l.exec(ctx, c, l.remove(sorted.Items[from:to]), to-from)
			return err
		})
	})
	return conn.Classify(l.what("remove tickets"), err)
}

// Lines is driver.Tickets'.
func (l *Line) Lines(ctx context.Context, keys []string) ([]driver.Line, error) {
	type found struct {
		key string
		driver.Line
	}
	byKey := make(map[string]driver.Line)
	err := l.db.Read(ctx, func(c *conn.Conn) error {
		return inParts(len(keys), func(from, to int) error {
			lines, err := conn.Query(ctx, c, 0, l.lines(to-from, func(i int) string { return keys[from+i] }), func(rows *sql.Rows) (f found, err error) {
				var name sql.RawBytes
				var seq conn.Int
				err = rows.Scan(&name, &f.Waiting, &seq)
				f.key, f.Since = string(name), time.UnixMicro(seq.N).UTC()
				return f, err
			})
			for _, f := range lines {
				byKey[f.key] = f.Line
			}
			return err
		})
	})
	if err != nil {
		return nil, conn.Classify(l.what("read tickets"), err)
	}
	lines := make([]driver.Line, len(keys))
	for i, key := range keys {
		lines[i] = byKey[key]
	}
	return lines, nil
}

// Inform adds to Infos who waits for their keys.
func (l *Line) Inform(ctx context.Context, infos ...*driver.Info) error {
	return storekit.Inform(ctx, l.Lines, infos...)
}

// Reap removes tickets that have been over for longer than the grace, at most n of them. Until
// then one may be renewed.
func (l *Line) Reap(ctx context.Context, grace time.Duration, n int) (removed int, err error) {
	dead := conn.NewText(0).Add("strategy=").Key(l.strategy).Add(" AND expires_at<" + row.Now + "-INTERVAL ").Micros(grace).Add(" MICROSECOND").String()
	type place struct {
		key, id []byte
		seq     string
	}
	var found []place
	err = l.db.Slow(ctx, func(c *conn.Conn) (err error) {
		found, err = conn.Query(ctx, c, 0, conn.NewText(0).Add("SELECT name,seq,ticket FROM ", l.table, " WHERE ", dead, " LIMIT ").Int(int64(n)).String(),
			func(rows *sql.Rows) (p place, err error) {
				err = rows.Scan(&p.key, &p.seq, &p.id)
				return p, err
			})
		return err
	})
	if err != nil {
		return 0, conn.Classify(l.what("reap"), err)
	}
	for _, p := range found {
		n, err := l.db.RemoveRow(ctx, conn.NewText(0).Add("DELETE t FROM ", l.table, " AS t FORCE INDEX (PRIMARY) WHERE ", dead, " AND name=").Bytes(p.key).
			Add(" AND seq=", p.seq, " AND ticket=").Bytes(p.id).String())
		if err != nil {
			return removed, conn.Classify(l.what("reap"), err)
		}
		removed += n
	}
	return removed, nil
}
