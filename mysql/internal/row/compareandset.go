package row

import (
	"context"
	"errors"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mysql/internal/conn"
)

// What is rare in a key with a line is made here, from a row that was read: a dead program stands first, a claim ran out, a
// key was freed without being passed, a program leaves from the middle, a line cannot be read. The UPDATE demands that the row
// is still as it was read, so it does what one statement would have done, or nothing; then the row is read again.

// change is what becomes of a row.
type change struct {
	grant   *driver.Request // has the key now, on its own terms
	pass    *Entry          // has it for its claim
	line    Line
	changes bool
	held    time.Duration // for how long the key is held by another then; 0: it is not
}

// asked is what a request makes of the row, which does not show its own live hold.
func (r *Row) asked(q *driver.Request) (ch change) {
	ch.line = r.Line()
	exclusive := q.Mode == driver.Exclusive
	if r.Left <= 0 {
		switch {
		case exclusive && (len(ch.line) == 0 || ch.line[0].ID == q.ID):
			return change{grant: q, line: ch.line.Without(q.ID), changes: true}
		case len(ch.line) > 0 && ch.line[0].Mode == driver.Exclusive:
			ch.passFirst()
		default:
			ch.line, ch.changes = ch.line.Called(q.ID, r.now)
		}
	} else {
		ch.held = r.Left
	}
	if q.Stand && (ch.changes || !exclusive || ch.line.Place(q.ID) == 0) {
		ch.line = ch.line.With(q, r.now) // the upsert has refreshed the others
		ch.changes = ch.changes || ch.line.Place(q.ID) > 0
	}
	return ch
}

// passFirst passes the key to the first of the line.
func (ch *change) passFirst() {
	first := ch.line[0]
	ch.pass, ch.line, ch.changes, ch.held = &first, ch.line[1:], true, first.Claim
}

// left is what the row is without a request that stands, and with the next. The key is passed on, if it is free.
func (r *Row) left(h *driver.Hold) (ch change) {
	ch.line, ch.changes = r.Line().Without(h.ID), true
	if h.Next != nil {
		ch.line = ch.line.With(h.Next, r.now)
	}
	if r.Left <= 0 && len(ch.line) > 0 && ch.line[0].Mode == driver.Exclusive {
		ch.passFirst()
	}
	return ch
}

// write makes the change, if the row is as it was read. LAST_INSERT_ID is the token of a grant.
func (ch *change) write(table string, r *Row) conn.Statement {
	return func(t *conn.Text) {
		t.Part(Update(table))
		grant := func(id driver.HoldID, owner string, lasts time.Duration) {
			t.Add("token=LAST_INSERT_ID(GREATEST(token+" + TokenRange + "," + NewToken + ")),hold=").Bytes(id[:]).Add(",owner=").Key(owner).
				Add(",acquired_at=" + Now + ",released_at=NULL,expires_at=" + Now + "+INTERVAL ").Micros(lasts).Add(" MICROSECOND,")
		}
		switch {
		case ch.grant != nil:
			grant(ch.grant.ID, ch.grant.Owner, max(ch.grant.TTL, ch.grant.Keep))
		case ch.pass != nil:
			grant(ch.pass.ID, passedOwner, ch.pass.Claim)
		}
		t.Add("line=").Bytes(ch.line.bytes()).Add(" WHERE name=").Key(r.Key).Add(" AND hold=").Bytes(r.ID[:]).Add(" AND token=").Int(r.Token).
			Add(" AND line=").Bytes(r.line)
		if r.Left > 0 {
			t.Add(" AND expires_at>" + Now)
		} else {
			t.Add(" AND " + Free)
		}
	}
}

// change sends it. done: the row was as it was read.
func (l *Table) change(ctx context.Context, c *conn.Conn, bound time.Duration, r *Row, ch change) (token int64, done bool, err error) {
	res, err := c.ExecOne(ctx, bound, ch.write(l.Name, r))
	if err != nil {
		return 0, false, err
	}
	n, err := res.RowsAffected()
	if err == nil && n > 0 {
		token, err = res.LastInsertId()
	}
	l.lines.note(r.Key, len(ch.line) > 0)
	return token, n > 0, err
}

// changes bounds how often a row is read again that others have changed meanwhile.
const changes = 10

// byHand answers a request of a key that has a line, or is to have one, from its row. answered is false where the row is not
// what it was for.
func (a *Attempt) byHand(ctx context.Context, c *conn.Conn, i int, r Row, bound time.Duration) (answered bool, err error) {
	q := &a.Reqs[i]
	for range changes {
		if r.Ungrantable() != "" && (r.Left <= 0 || r.Corrupt != "") {
			a.Results[i] = driver.Result{Err: a.CorruptError("acquire", r.Key, r.Ungrantable(), true)}
			return true, nil
		}
		ch := r.asked(q)
		token, done := int64(0), true
		if ch.changes {
			if token, done, err = a.change(ctx, c, bound, &r, ch); err != nil {
				return false, conn.MaybeApplied(a.What("acquire"), err) // the upsert may have added it
			}
		}
		if done {
			switch {
			case ch.grant != nil:
				a.Results[i] = driver.Result{Status: driver.Granted, Token: token, Stored: token}
			case ch.pass != nil:
				a.Results[i] = driver.Result{Status: driver.Held, Left: ch.held}
			default:
				a.Results[i] = driver.Result{Status: driver.Held, Left: ch.held, Owner: r.Owner, Shared: r.InPhase}
			}
			ch.line.tell(&a.Results[i], q.ID, r.now)
			return true, nil
		}
		rows, err := a.Rows(ctx, c, 1, func(int) string { return q.Key })
		if err != nil {
			return false, conn.MaybeApplied(a.What("acquire"), err)
		}
		if a.settle(i, rows) {
			return true, nil
		}
		again, ok := rows[q.Key]
		if !ok {
			return false, nil // it was removed: the upsert makes it anew
		}
		r = again
	}
	a.Results[i] = driver.Result{Status: driver.Held, Left: max(r.Left, 0), Owner: r.Owner, Shared: r.InPhase}
	r.Line().tell(&a.Results[i], q.ID, r.now)
	return true, nil
}

// Refused passes on the key of a request of Mode Shared or Slot that was refused, if it is free, and tells what its line says. r is the
// key's row, as it was after the request was to stand. If it does not, the row has something that a person put there, or that died.
func (a *Attempt) Refused(ctx context.Context, c *conn.Conn, i int, r Row) error {
	q := a.Reqs[i]
	q.Stand = q.Stand && r.Line().Place(q.ID) == 0
	by := Attempt{Table: a.Table, Reqs: []driver.Request{q}, Results: []driver.Result{{}}}
	answered, err := by.byHand(ctx, c, 0, r, a.DB.Bound(0))
	if errors.Is(err, conn.ErrBlocked) { // the last hold's transaction is open: somebody asks again
		answered, err = false, nil
	}
	if err != nil {
		return conn.MaybeApplied(a.What("acquire"), err)
	}
	if now, was := by.Results[0], &a.Results[i]; answered {
		was.Place, was.Standing, was.First = now.Place, now.Standing, now.First
		if was.Left == 0 && !r.InPhase {
			was.Left = now.Left
		}
	}
	return nil
}

// Depart takes a request out of the line that was granted otherwise.
func Depart(table, key string, id *driver.HoldID) conn.Statement {
	return func(t *conn.Text) {
		t.Part(Update(table)).Add("line=CONCAT(LEFT(line,LOCATE(").Bytes(id[:]).Add(",line)-1),SUBSTRING(line,LOCATE(").Bytes(id[:]).
			Add(",line)+" + entrySizeText + ")) WHERE name=").Key(key).Add(" AND LOCATE(").Bytes(id[:]).Add(",line)>0")
	}
}

// Sets adds what the columns of a row become that is written by hand: the line without a request.
func (r Row) Sets(line Line) conn.Statement {
	return func(t *conn.Text) { t.Add("line=").Bytes(line.bytes()) }
}

// Tell adds to the answer for a request what the line says.
func (r Row) Tell(res *driver.Result, id driver.HoldID) { r.Line().tell(res, id, r.now) }

// LeaveLine takes a request out of the line in which its row shows it.
func (b *Batch) LeaveLine(ctx context.Context, c *conn.Conn, i int, r Row) error {
	h := &b.Holds[i]
	passes := true
	for range changes {
		if r.Line().Place(h.ID) == 0 {
			if r.Mine(h.ID) { // it was passed the key meanwhile
				return b.passKeys(ctx, c, []int{i})
			}
			status := r.Gone(h.ID)
			b.Results[i] = driver.Result{Status: status, Final: status == driver.Released}
			return nil
		}
		ch := r.left(h)
		if !passes {
			ch = change{line: r.Line().Without(h.ID)}
		}
		_, done, err := b.table.change(ctx, c, b.table.DB.Bound(0), &r, ch)
		switch {
		case errors.Is(err, conn.ErrBlocked) && ch.pass != nil: // an open transaction of the last holder
			passes = false
		case err != nil:
			return conn.MaybeApplied(b.what(), err)
		case done: // not Final: an attempt that refreshes the entry may still be on its way
			b.Results[i] = driver.Result{Status: driver.Released}
			if h.Next != nil {
				ch.line.tell(&b.Results[i], h.Next.ID, r.now)
			}
			return nil
		}
		rows, err := b.table.Rows(ctx, c, 1, func(int) string { return h.Key })
		if err != nil {
			return conn.MaybeApplied(b.what(), err)
		}
		again, ok := rows[h.Key]
		if !ok {
			b.Results[i] = driver.Result{Status: driver.Removed}
			return nil
		}
		r = again
	}
	// Its row changes all the time, or no column of it can be compared, because somebody changed it by hand. Whoever looks next passes the key.
	if _, err := c.ExecOne(ctx, b.table.DB.Bound(0), Depart(b.table.Name, h.Key, &h.ID)); err != nil {
		return conn.MaybeApplied(b.what(), err)
	}
	b.Results[i] = driver.Result{Status: driver.Released}
	return nil
}
