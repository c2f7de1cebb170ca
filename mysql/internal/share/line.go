package share

import (
	"context"
	"errors"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mysql/internal/conn"
	"github.com/rowlock/rowlock/mysql/internal/row"
)

// Readers and slots in the line of a key. They join while no exclusive request stands before them, also those that do not stand. A key
// that is free, or in a phase, with readers or slots before the first exclusive entry is theirs, as a look tells them (View.Free), and the
// acquire of each makes its hold. The first that joins begins the phase and passes it to the other readers of the run: each has its hold
// for its claim then. A slot joins by itself.

// lined decides about a request from the row of its key, which has a line. on: it is to be tried again, as one that the line
// lets in. Else it has no answer yet where it must wait.
func (j *joins) lined(ctx context.Context, c *conn.Conn, i int, st keyState) (on bool, err error) {
	r := &j.reqs[i]
	line := st.row.Line()
	switch {
	case line.Before(r.ID).Exclusive():
		j.behind[i] = true
		fallthrough
	case r.Mode == driver.Slot && firstSlot(line, r.ID) >= r.Slots:
		if !st.row.InPhase {
			j.results[i] = driver.Result{Status: driver.Held, Left: max(st.row.Left, 0), Owner: st.row.Owner}
		}
		return false, nil // behind others
	case !st.row.InPhase && st.row.Left > 0:
		j.results[i] = driver.Result{Status: driver.Held, Left: st.row.Left, Owner: st.row.Owner}
		return false, nil
	}
	switch st.state {
	case phaseOpen:
	case phaseNew:
		err = j.confirm(ctx, c, r.Key, st.row.ID)
	default: // it is free
		var unlocked map[string]bool
		if unlocked, err = j.Unlocked(ctx, c, []row.Row{st.row}); err == nil && !unlocked[r.Key] {
			j.results[i] = driver.Result{Status: driver.Pinned}
			return false, nil
		}
		phase := PhaseOf(r.ID)
		if _, err = c.ExecOne(ctx, j.DB.Bound(0), beginLined(j.Table, &st.row, &phase)); err == nil && j.Fenced {
			err = j.confirm(ctx, c, r.Key, phase)
		}
	}
	if errors.Is(err, conn.ErrBlocked) {
		err = nil // the next look tells
	}
	j.among[i] = &st.row
	if s := j.slots[i]; s != nil && s.slot >= 0 && s.slot < firstSlot(line, r.ID) {
		s.slot = -1
	}
	return true, err
}

// beginLined begins the phase of a key that is free, if its row is as it was read.
func beginLined(l *Table, r *row.Row, phase *driver.HoldID) conn.Statement {
	until := PhaseEnd
	if l.Fenced {
		until = phaseBegun
	}
	return func(t *conn.Text) {
		t.Part(row.Update(l.Name)).Add("token=GREATEST(token+" + row.TokenRange + "," + row.NewToken + "),phase=").Bytes(phase[:]).Add(",hold=").Bytes(phase[:]).
			Add(",owner='',acquired_at=" + row.Now + ",released_at=NULL,expires_at=" + until + " WHERE name=").Key(r.Key).
			Add(" AND hold=").Bytes(r.ID[:]).Add(" AND token=").Int(r.Token).Add(" AND " + row.Free).Part(r.SameLine)
	}
}

// standAll has the requests stand that were refused and are to, passes on what is free, and takes out of the line who was granted
// out of it.
func (j *joins) standAll(ctx context.Context, c *conn.Conn, some []int) error {
	if !j.Lined {
		return nil
	}
	var refused []int
	for _, i := range some {
		r, res := &j.reqs[i], &j.results[i]
		switch {
		case res.Status == driver.Granted && j.among[i] != nil && j.among[i].Line().Place(r.ID) > 0:
			j.passRun(ctx, c, r.ID, j.among[i])
		case (res.Status == driver.Held || res.Status == driver.Pinned) && !res.Apart && (r.Stand || j.behind[i]):
			refused = append(refused, i)
		}
	}
	if len(refused) == 0 {
		return nil
	}
	rows, err := j.stand(ctx, c, j.reqs, refused)
	a := row.Attempt{Table: j.Table.Table, Reqs: j.reqs, Results: j.results}
	for _, i := range refused {
		r, ok := rows[j.reqs[i].Key]
		if ok && err == nil {
			err = a.Refused(ctx, c, i, r)
		}
		if ok && err == nil && r.InPhase && j.results[i].Status == driver.Held && r.Line().Before(j.reqs[i].ID).Exclusive() {
			j.results[i] = j.takeLined(ctx, c, i) // the phase may be over, and the key another's
		}
		if err != nil {
			j.results[i] = driver.Result{Err: conn.MaybeApplied(j.What("acquire"), err)}
		}
	}
	return nil
}

// stand has those of some requests stand that are to, and reads the rows of their keys then. No holder that comes and goes
// meanwhile is in their way, as it would be if a row were written that was read before.
func (l *Table) stand(ctx context.Context, c *conn.Conn, reqs []driver.Request, some []int) (map[string]row.Row, error) {
	for _, i := range some {
		if q := &reqs[i]; q.Stand {
			_, err := c.ExecOne(ctx, l.DB.Bound(0), row.Stand(l.Name, q, PhaseOf(q.ID)))
			if err != nil && !errors.Is(err, conn.ErrBlocked) { // then it asks again
				return nil, err
			}
		}
	}
	return l.Rows(ctx, c, len(some), func(n int) string { return reqs[some[n]].Key })
}

// passRun makes the holds of the readers that stand before the first exclusive request, after one of them has joined, and takes
// their entries out of the line with its own. Where that does not succeed each joins by itself. read is the row as the joiner saw it.
func (l *Table) passRun(ctx context.Context, c *conn.Conn, own driver.HoldID, read *row.Row) {
	key := read.Key
	for n := 0; n < takesLined && len(readerRun(read.Line().Without(own))) > 0; n++ {
		rows, err := l.Rows(ctx, c, 1, func(int) string { return key })
		r, ok := rows[key]
		if err != nil || !ok || !r.InPhase {
			break
		}
		line := r.Line().Without(own)
		run := readerRun(line)
		if read = &r; len(run) == 0 {
			break
		}
		if _, err := c.ExecOne(ctx, l.DB.Bound(0), joinRun(l, &r, run)); err != nil {
			break
		}
		for _, e := range run {
			line = line.Without(e.ID)
		}
		if res, err := c.ExecOne(ctx, l.DB.Bound(0), writeLine(l, &r, line)); err != nil {
			break
		} else if n, err := res.RowsAffected(); err == nil && n > 0 {
			return
		}
	}
	l.depart(ctx, c, key, own)
}

// readerRun are the readers before the first exclusive request of a line.
func readerRun(line row.Line) (run row.Line) {
	for _, e := range line {
		if e.Mode == driver.Exclusive {
			break
		}
		if e.Mode == driver.Shared {
			run = append(run, e)
		}
	}
	return run
}

// joinRun makes the holds of readers that still stand, each for its claim, in the phase that was read. One that has joined is left as it is.
func joinRun(l *Table, r *row.Row, run row.Line) conn.Statement {
	return func(t *conn.Text) {
		t.Add("INSERT INTO ", l.Share, " (name,slot,hold,owner,token,phase,acquired_at,expires_at,released_at) SELECT v.name,d.s,d.h,'',"+readerToken+",v.token,"+row.Now+","+row.Now+"+INTERVAL d.t MICROSECOND,NULL FROM (")
		for i := range run {
			if i > 0 {
				t.Add(" UNION ALL ")
			}
			t.Add("SELECT ").Uint(readerSlot(&run[i].ID)).Add(" AS s,").Bytes(run[i].ID[:]).Add(" AS h,").Micros(run[i].Claim).Add(" AS t")
		}
		t.Add(") AS d STRAIGHT_JOIN ", l.Name, " AS v FORCE INDEX (PRIMARY) ON v.name=").Key(r.Key).Add(" WHERE v.phase=v.hold AND v.expires_at="+PhaseEnd+" AND v.hold=").
			Bytes(r.ID[:]).Add(" AND LOCATE(d.h,v.line)>0 LOCK IN SHARE MODE ON DUPLICATE KEY UPDATE slot=", l.Share, ".slot")
	}
}

// writeLine makes the line another, if it is as it was read.
func writeLine(l *Table, r *row.Row, line row.Line) conn.Statement {
	return func(t *conn.Text) {
		t.Part(row.Update(l.Name)).Part(r.Sets(line)).Add(" WHERE name=").Key(r.Key).Part(r.SameLine)
	}
}

// depart takes the entry of a reader or slot that has joined out of the line. Where the row is locked for long, the release tries again:
// until then nobody has the key for whom the entry would be in the way.
func (l *Table) depart(ctx context.Context, c *conn.Conn, key string, id driver.HoldID) {
	for n := range conn.Bounds {
		if _, err := c.ExecOne(ctx, l.DB.Bound(n), row.Depart(l.Name, key, &id)); err == nil {
			l.departing.Delete(id)
			return
		} else if !errors.Is(err, conn.ErrBlocked) {
			break
		}
	}
	l.departing.Store(id, key)
}

// departLate is what a release does of that, and of an entry whose hold another has made.
func (l *Table) departLate(ctx context.Context, c *conn.Conn, h *driver.Hold) {
	if _, ok := l.departing.LoadAndDelete(h.ID); ok || l.SeenLine(h.Key) {
		_, _ = c.ExecOne(ctx, l.DB.Bound(0), row.Depart(l.Name, h.Key, &h.ID)) // else the entry ends by itself
	}
}

// takeLined goes on with a request that met a phase, of a key that has a line: the exclusive request that stands first in it gets
// the key if no hold is left.
func (a *attempt) takeLined(ctx context.Context, c *conn.Conn, i int) driver.Result {
	r := &a.reqs[i]
	p := a.Table.Passage(r, nil)
	p.c = c
	for range takesLined {
		err := p.look(ctx)
		if err != nil {
			return p.Answer(driver.Result{}, err)
		}
		if r.Mode == driver.Exclusive && !p.holders.inPhase && p.holders.row.ID == r.ID { // another has passed it the key
			if err := a.keys.Run(ctx, c, []int{i}); err != nil {
				return p.Answer(driver.Result{}, conn.MaybeApplied(a.What("acquire"), err))
			}
			return a.results[i]
		}
		line, res := p.holders.row.Line(), p.refused()
		p.holders.row.Tell(&res, r.ID)
		if !p.holders.inPhase || p.holders.live() > 0 {
			return res
		}
		first := row.Entry{ID: r.ID}
		switch {
		case len(line) > 0:
			first = line[0]
		case r.Mode != driver.Exclusive:
			return res // its own join
		}
		if first.Mode != driver.Exclusive { // it is theirs
			if called, changed := line.Called(r.ID, p.holders.row.Now()); changed {
				_, _ = c.ExecOne(ctx, a.DB.Bound(0), writeLine(a.Table, &p.holders.row, called)) // if not, the next one does
			}
			return res
		}
		if r.Pinned || a.DB.CannotKill.Load() {
			if pinned, err := p.pinned(ctx); err != nil || pinned {
				res.Status = driver.Pinned
				return p.Answer(res, err)
			}
		}
		if p.holders.expired > 0 {
			if _, err := p.exec(ctx, bury(a.Table, r.Key)); err != nil {
				return p.Answer(res, err)
			}
		}
		line = line.Without(first.ID)
		p.takes = takeLined(a.Table, r, &first, p.holders.row, line)
		got, ok, err := p.take(ctx)
		switch {
		case errors.Is(err, conn.ErrBlocked) && !conn.Unsure(err):
			res.Status = driver.Pinned
			return res
		case err != nil:
			return p.Answer(got, err)
		case !ok: // somebody came, was renewed, or moved the end of its entry
			continue
		case got.Status == driver.Pinned:
			res.Status = driver.Pinned
			return res
		case first.ID != r.ID:
			res.Left, res.Shared = first.Claim, false
			if res.Standing--; res.Place > 0 {
				res.Place--
			}
			return res
		}
		got.Standing, got.First = len(line), line.First(p.holders.row.Now())
		return got
	}
	res := p.refused()
	p.holders.row.Tell(&res, r.ID)
	return res
}

// takesLined bounds how often a take is tried while others write the line.
const takesLined = 5

// takeLined gives the first of the line the key of a phase, if no hold is left and the line is as it was read: for its claim, or, if
// that is the request, on its own terms. Its token is above those of the slots too. LAST_INSERT_ID is the token.
func takeLined(l *Table, r *driver.Request, first *row.Entry, read row.Row, line row.Line) conn.Statement {
	return func(t *conn.Text) {
		t.Part(row.Update(l.Name)).Add("token=LAST_INSERT_ID(GREATEST(token+" + row.TokenRange + "," + row.NewToken + ",").Part(AboveShares(l, r.Key)).Add(")),hold=").Bytes(first.ID[:]).
			Add(",acquired_at=" + row.Now + ",released_at=NULL,phase=NULL,")
		if first.ID == r.ID {
			t.Add("owner=").Key(r.Owner).Add(",expires_at=" + row.Now + "+INTERVAL ").Micros(max(r.TTL, r.Keep))
		} else {
			t.Add("owner=" + row.PassedOwner + ",expires_at=" + row.Now + "+INTERVAL ").Micros(first.Claim)
		}
		t.Add(" MICROSECOND,").Part(read.Sets(line)).Add(" WHERE name=").Key(r.Key).Add(" AND " + InPhase).Part(read.SameLine).Part(noneLeft(l))
	}
}
