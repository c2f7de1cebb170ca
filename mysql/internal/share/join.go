package share

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/split"
	"github.com/rowlock/rowlock/mysql/internal/conn"
	"github.com/rowlock/rowlock/mysql/internal/row"
)

// joins are the requests of Mode Shared and Slot of one Acquire. Each is tried by a join,
// which most often is all. Where none of its key was possible, a phase begins, if the key
// is free; then the join is tried again, and what keeps it out is found by a plain read.
type joins struct {
	*attempt
	slots      map[int]*slotChoice // of the requests of Mode Slot
	obstructed bool                // a phase is there that was not to be joined
	again      map[int]bool        // to be tried again: the phase is there
	kept       map[int]int         // how often somebody's lock kept the join of a request waiting
	among      map[int]*row.Row    // of requests that the line of their key lets in
	sends      []joining           // what each request of a try sends
	sent       time.Time           // when the last join was
	before     time.Duration       // between that and the read of who has what; 0: there was none
	behind     map[int]bool        // those that an exclusive request stands before
}

// joinRounds bounds how often a join is tried: each time something else was in the way,
// which others did meanwhile.
const joinRounds = 6

// join answers the requests, in the order of their keys. The error is that of all, and
// says that nothing of theirs was sent.
func (a *attempt) join(ctx context.Context, c *conn.Conn, some []int) error {
	j := joins{attempt: a, slots: make(map[int]*slotChoice), again: make(map[int]bool), kept: make(map[int]int), among: make(map[int]*row.Row), behind: make(map[int]bool)}
	for _, i := range some {
		if a.reqs[i].Mode == driver.Slot {
			j.slots[i] = newSlotChoice(&a.reqs[i])
		}
	}
	open := some
	for round := 0; round < joinRounds && len(open) > 0; round++ {
		var err error
		open, err = j.try(ctx, c, open)
		if err == nil {
			var phase, again []int
			lined := false
			for _, i := range open {
				if j.again[i] {
					again = append(again, i)
				} else {
					phase = append(phase, i)
					lined = lined || j.SeenLine(j.reqs[i].Key) // then the row must be read
				}
			}
			clear(j.again)
			switch {
			case len(phase) == 0:
			case round == 0 && !lined:
				if phase, err = j.begin(ctx, c, phase); err == nil && j.obstructed {
					phase, err = j.makeWay(ctx, c, phase)
				}
			default:
				phase, err = j.makeWay(ctx, c, phase)
			}
			open = slices.Sorted(slices.Values(append(phase, again...)))
		}
		if err != nil {
			// What stands of a round before is a phase without their holds, which keeps nobody out.
			err = conn.Classify(a.What("acquire"), err)
			if round == 0 && len(open) == len(a.reqs) {
				return err
			}
			for _, i := range open {
				a.results[i] = driver.Result{Err: err}
			}
			return j.standAll(ctx, c, some)
		}
	}
	for _, i := range open {
		if a.results[i] = (driver.Result{Status: driver.Held}); j.kept[i] > 0 { // else others were there each time
			a.results[i] = driver.Result{Err: conn.Classify(fmt.Sprintf("%s of %q", a.What("acquire"), a.reqs[i].Key), conn.ErrBlocked)}
		}
	}
	return j.standAll(ctx, c, some)
}

// try sends the joins, and returns those that were not possible and not refused.
func (j *joins) try(ctx context.Context, c *conn.Conn, open []int) ([]int, error) {
	j.sends = make([]joining, len(j.reqs))
	var some, alone []int
	for _, i := range open {
		r := &j.reqs[i]
		to := joining{Request: r, at: place{r.Key, readerSlot(&r.ID)}, among: j.among[i]}
		if s := j.slots[i]; s != nil {
			answered, err := j.choose(ctx, c, i, s)
			if err != nil {
				return slices.DeleteFunc(slices.Clone(open), func(i int) bool { return j.answered(i) }), err
			}
			if answered {
				continue
			}
			to.at.slot = uint64(s.slot)
		}
		j.sends[i] = to
		if to.among != nil { // others of its key stand: each alone
			more, err := j.tryOne(ctx, c, i)
			if err != nil {
				return slices.DeleteFunc(slices.Clone(open), func(i int) bool { return j.answered(i) }), err
			}
			if more {
				alone = append(alone, i)
			}
			continue
		}
		some = append(some, i)
	}
	if len(some) == 0 {
		return alone, nil
	}
	rest, err := j.tryAll(ctx, c, some)
	return slices.Sorted(slices.Values(slices.Concat(rest, alone))), err
}

// answered reports whether a request has its answer.
func (j *joins) answered(i int) bool {
	return j.results[i].Status != driver.Unknown || j.results[i].Err != nil
}

// tryOne sends one join. open: it was not possible.
func (j *joins) tryOne(ctx context.Context, c *conn.Conn, i int) (open bool, err error) {
	to, known := j.sends[i], int64(0)
	if to.Mode == driver.Slot {
		known = j.phases.known(to.Key)
	}
	bound := j.DB.Bound(min(j.kept[i], len(conn.Bounds)-1))
	j.sent = time.Now()
	res, err := c.ExecOne(ctx, bound, join(j.Table, to, known))
	switch {
	case errors.Is(err, conn.ErrBlocked):
		if j.kept[i]++; !row.Waited(err) && j.kept[i] < len(conn.Bounds) {
			return true, j.keptWaiting(ctx, c, i, to, bound)
		}
		j.results[i] = driver.Result{Status: driver.Pinned}
		return false, nil
	case row.IsCorrupt(err):
		j.results[i] = driver.Result{Err: j.shareCorrupt("acquire", to.Key, err.Error(), true)}
		return false, nil
	case err != nil:
		return true, err
	}
	id, err := res.LastInsertId()
	switch {
	case err != nil:
		return true, conn.MaybeApplied(j.What("acquire"), err)
	case id == 0:
		return true, nil
	case 0 < id && id < row.GrantedFrom-1:
		j.lost(i)
		return true, nil
	case id == row.GrantedFrom-1: // it finds its own, of which the row tells
	case id > 0 && id <= driver.MaxToken && to.Mode == driver.Shared:
		j.results[i] = driver.Result{Status: driver.Granted, Token: id, Stored: id, Phase: id}
		return false, nil
	case id > 0 && id <= driver.MaxToken:
		j.results[i] = driver.Result{Status: driver.Granted, Token: id, Stored: id, Slot: int(to.at.slot), Phase: known}
		return false, nil
	}
	left, err := j.tellJoined(ctx, c, []int{i})
	if to.Stand && id != row.GrantedFrom-1 {
		j.results[i].Left = 0 // it is not the hold of an attempt before
	}
	if len(left) > 0 && err == nil {
		err = fmt.Errorf("mysql: %s: the row of %q does not show this hold: is there a proxy that reads from a replica?", j.What("acquire"), to.Key)
	}
	if err != nil {
		err = conn.MaybeApplied(j.What("acquire"), err)
	}
	return len(left) > 0, err
}

// tryAll sends joins in one statement, in halves where it is too large or the server
// stumbles over a row. Where somebody's lock keeps it waiting, all are to come apart.
func (j *joins) tryAll(ctx context.Context, c *conn.Conn, some []int) ([]int, error) {
	if len(some) == 1 {
		if open, err := j.tryOne(ctx, c, some[0]); open || err != nil {
			return some, err
		}
		return nil, nil
	}
	all := make([]joining, len(some))
	for n, i := range some {
		all[n] = j.sends[i]
	}
	j.sent = time.Now()
	_, err := c.Exec(ctx, j.DB.Bound(0), joinAll(j.Table, all).Literal())
	switch {
	case row.IsCorrupt(err), errors.Is(err, conn.ErrTooLarge):
		return split.Halves(some, func(half []int) ([]int, error) { return j.tryAll(ctx, c, half) }, j.AfterPart)
	case errors.Is(err, conn.ErrBlocked):
		return j.apart(ctx, c, some)
	case err != nil:
		return some, err
	}
	return j.tellJoined(ctx, c, some)
}

// apart answers requests whose common join was kept waiting: they are to come again
// without others. Those that did so are tried one by one.
func (j *joins) apart(ctx context.Context, c *conn.Conn, some []int) (open []int, err error) {
	for n, i := range some {
		if !j.reqs[i].Apart {
			j.results[i] = driver.Result{Status: driver.Pinned, Apart: true}
			continue
		}
		more, err := j.tryOne(ctx, c, i)
		if err != nil {
			return append(open, some[n:]...), err
		}
		if more {
			open = append(open, i)
		}
	}
	return open, nil
}

// tellJoined answers those that the rows show to be granted, and returns the others.
func (j *joins) tellJoined(ctx context.Context, c *conn.Conn, some []int) (open []int, err error) {
	j.before = time.Since(j.sent)
	defer func() { j.before = 0 }()
	rows, err := j.shareRows(ctx, c, len(some), func(n int) place { return j.sends[some[n]].at })
	if err != nil {
		return some, conn.MaybeApplied(j.What("acquire"), err)
	}
	for _, i := range some {
		r, ok := rows[j.sends[i].at.name()]
		if ok && j.settleShare(i, r) {
			continue
		}
		if ok && r.Left > 0 {
			j.lost(i)
		}
		open = append(open, i)
	}
	return open, nil
}

// settleShare answers a request whose hold the row shows.
func (j *joins) settleShare(i int, r ShareRow) bool {
	switch {
	case !r.Mine(j.reqs[i].ID) || r.Left <= 0 && r.Corrupt == "":
		return false
	case r.Corrupt != "":
		j.results[i] = driver.Result{Err: j.shareCorrupt("acquire", j.reqs[i].Key, r.Corrupt, false)}
		return true
	}
	j.results[i] = driver.Result{Status: driver.Granted, Token: r.Token, Stored: r.Token, Phase: r.Phase, Left: r.Left}
	if q := &j.reqs[i]; q.Stand && r.Owner == q.Owner && r.Now()-r.SinceMicros <= j.before.Microseconds() && j.before > 0 {
		j.results[i].Left = 0 // it was granted after the join was sent, so for all of its TTL
	}
	if j.reqs[i].Mode == driver.Slot {
		j.results[i].Slot = int(r.Slot)
		j.phases.note(j.reqs[i].Key, r.Phase)
	}
	return true
}

// lost notes that another has the slot of a request.
func (j *joins) lost(i int) {
	if s := j.slots[i]; s != nil {
		s.slot, j.again[i] = -1, true
	}
}

// keptWaiting finds out what kept a join waiting. An attempt that writes the key's row is
// over soon; a guarded transaction of the slot's last hold may last, but another slot may be
// free. If there is no lock the server is slow.
func (j *joins) keptWaiting(ctx context.Context, c *conn.Conn, i int, to joining, bound time.Duration) error {
	unlocked, err := j.KeySet(ctx, c, conn.NewText(200).Add("SELECT name FROM ", j.Name, " FORCE INDEX (PRIMARY) WHERE name=").Key(to.Key).Add(skipLocked).String())
	if err != nil {
		return err
	}
	if !unlocked[to.Key] {
		conn.Pause(ctx, row.BusyPause)
		return nil // or it is not there any more, which begin finds out
	}
	j.again[i] = true
	s := j.slots[i]
	if s == nil {
		j.DB.NoteAnswer(bound)
		return nil
	}
	locked := make(map[int]bool)
	if err := j.addLocked(ctx, c, &j.reqs[i], locked); err != nil {
		return err
	}
	if s.guards = true; locked[s.slot] {
		j.lost(i)
	} else {
		j.DB.NoteAnswer(bound)
	}
	return nil
}

// skipLocked takes a shared lock of the rows that nobody has locked otherwise. Each server
// takes the other's words for a comment.
const skipLocked = " /*!80000 FOR SHARE */ /*M!100600 LOCK IN SHARE MODE */ SKIP LOCKED"
