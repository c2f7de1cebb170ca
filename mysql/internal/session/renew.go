package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/clock"
	"github.com/rowlock/rowlock/internal/patience"
	"github.com/rowlock/rowlock/mysql/internal/conn"
)

// Renew sends a heartbeat on the session of each hold, all at the same time, and
// renews the lease rows that are due in one statement. A session that hangs keeps
// no other from its answer: after a moment it is unknown, and its heartbeat goes
// on. Alive with Left says until when the hold is good, by the earlier of the two.
func (f *ForUpdate) Renew(ctx context.Context, holds []driver.Hold) ([]driver.Result, error) {
	if err := ctx.Err(); err != nil {
		return nil, conn.NotSent(f.lease.What("renew"), err)
	}
	return split(ctx, holds, exclusiveHold, f.renew, f.lease.Renew)
}

func (f *ForUpdate) renew(ctx context.Context, holds []driver.Hold) ([]driver.Result, error) {
	now := clock.Now()
	results := make([]driver.Result, len(holds))
	own := make([]*hold, len(holds))
	beating := make([]*heartbeat, len(holds))
	var due, foreign []int
	patience := time.Duration(0)
	for i, h := range holds {
		if own[i] = f.get(h.Key, h.ID); own[i] == nil {
			foreign = append(foreign, i)
			continue
		}
		if own[i].rowDue(now, h.TTL) && !own[i].silent(now, h.TTL) {
			due = append(due, i)
		}
		patience = max(patience, Heartbeats(h.TTL), f.db.Bound(0))
		beating[i] = f.startBeat(own[i], h.TTL)
	}
	waiting, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	rows := f.renewRows(ctx, now, holds, own, due)
	var dead []int
	causes := make(map[int]error) // why the session of a dead one is
	for i, h := range holds {
		if own[i] == nil {
			continue
		}
		stale, err := beating[i].wait(waiting.Done())
		row, asked := rows[i]
		left := own[i].left(now, h.TTL, h.MaxHold)
		switch {
		case errors.Is(err, ErrUnanswered):
			results[i].Err = &driver.Error{Err: fmt.Errorf("mysql: renew %q: %w", h.Key, err)}
		case err != nil:
			dead, causes[i] = append(dead, i), err
		case stale, asked && over(row.Status):
			dead = append(dead, i)
		case left <= 0:
			results[i].Err = &driver.Error{Err: fmt.Errorf("mysql: renew %q: the session lives, but the lease row could not be renewed: %w", h.Key, cmp.Or(row.Err, errTooLate))}
		default:
			own[i].trust(now + left)
			results[i] = driver.Result{Status: driver.Alive, Left: left}
		}
	}
	for _, i := range dead {
		f.finish(ctx, own[i])
	}
	f.resolve(ctx, "renew", f.db.RenewStep, holds, foreign, dead, results)
	for i, err := range causes {
		results[i].Err = fmt.Errorf("its session has ended: %w", err)
	}
	return batchError(ctx, results)
}

var errTooLate = errors.New("the answer came too late, or MaxHold is over")

// renewRows extends the lease rows of the holds that are due and gives the answers
// by index. What the sessions have answered meanwhile, or that one has ended, waits for it.
func (f *ForUpdate) renewRows(ctx context.Context, now time.Duration, holds []driver.Hold, own []*hold, due []int) map[int]driver.Result {
	if len(due) == 0 {
		return nil
	}
	batch := make([]driver.Hold, len(due))
	for n, i := range due {
		batch[n] = holds[i]
	}
	ctx, cancel := context.WithTimeout(ctx, patience.OfRenewals(batch))
	defer cancel()
	answers, err := f.lease.Renew(ctx, batch)
	rows := make(map[int]driver.Result, len(due))
	for n, i := range due {
		if err != nil {
			rows[i] = driver.Result{Err: err}
			continue
		}
		rows[i] = answers[n]
		if answers[n].Status == driver.Alive {
			ttl := holds[i].TTL
			if left := answers[n].Left; left > 0 {
				ttl = min(ttl, left)
			}
			own[i].renewed(now + ttl)
		}
	}
	return rows
}

// over reports whether an answer says that the hold has ended.
func over(s driver.Status) bool {
	return s == driver.Taken || s == driver.Forced || s == driver.Removed || s == driver.Released
}

// finish ends a hold that is over: its session is dead, or must free the row. What a heartbeat keeps from it until the call ends is
// done when that has its answer: nobody calls for this hold again.
func (f *ForUpdate) finish(ctx context.Context, h *hold) {
	select {
	case h.sem <- struct{}{}:
	default:
		select {
		case h.sem <- struct{}{}:
		case <-ctx.Done():
			if ctx != f.life {
				f.work(func() { f.finish(f.life, h) })
			}
			return
		}
	}
	defer func() { <-h.sem }()
	if !f.take(h) {
		return
	}
	h.ended = true
	if !h.session.Broken && rollBack(ctx, h.session) != nil {
		f.endSession(f.life, h.session)
	}
	h.session.Put()
}

// resolve answers by the lease row for holds that no session of this Store has: those
// that are foreign to it, and those whose session is dead. What the row still names
// is over too if nobody has its row locked.
func (f *ForUpdate) resolve(ctx context.Context, what string, step conn.StepFunc, holds []driver.Hold, foreign, dead []int, results []driver.Result) {
	if len(foreign)+len(dead) == 0 {
		return
	}
	var keys []string
	for _, i := range slices.Concat(foreign, dead) {
		keys = append(keys, holds[i].Key)
	}
	var states map[string]state
	err := step(ctx, func(c *conn.Conn) (err error) {
		if states, err = f.read(ctx, c, keys); err != nil {
			return conn.NotSent(f.lease.What(what), err)
		}
		for _, i := range foreign {
			if h := holds[i]; h.Undo && states[h.Key].InPhase { // an attempt that was refused there may have left its gate
				if err := f.ungate(ctx, c, h.Key, h.ID); err != nil {
					return conn.MaybeApplied(f.lease.What(what), err)
				}
			}
		}
		return nil
	})
	gone := func(h driver.Hold) driver.Result {
		if s, ok := states[h.Key]; ok && !s.Mine(h.ID) {
			return driver.Result{Status: s.Gone(h.ID)}
		}
		return driver.Result{Status: driver.Removed}
	}
	for _, i := range dead {
		results[i] = gone(holds[i])
	}
	for _, i := range foreign {
		h := holds[i]
		if err != nil {
			results[i] = driver.Result{Err: err}
		} else if s := states[h.Key]; s.locked && s.Mine(h.ID) {
			results[i] = driver.Result{Err: &driver.Error{NotApplied: true, Err: fmt.Errorf("mysql: %s %q: a session of another Store has the key", what, h.Key)}}
		} else {
			results[i] = gone(h)
		}
	}
}
