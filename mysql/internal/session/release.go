package session

import (
	"context"
	sqldriver "database/sql/driver"
	"fmt"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mysql/internal/conn"
)

// Release is ROLLBACK on the session of each hold. The lease row stays as it is:
// MinHold stands there since the grant. An undo takes MinHold back.
//
// An undo of an attempt whose outcome is not known is final when the server has
// confirmed that the attempt's session is gone, for without it a late step grants
// nothing, and when no MinHold can be written any more. Where KILL is refused the
// session is gone at the latest after its wait_timeout, which is over when the
// engine stops to repeat the undo.
func (f *ForUpdate) Release(ctx context.Context, holds []driver.Hold) ([]driver.Result, error) {
	if err := ctx.Err(); err != nil {
		return nil, conn.NotSent(f.lease.What("release"), err)
	}
	return split(ctx, holds, f.bySession, f.release, f.lease.Release)
}

// bySession reports whether what there may be of a hold is, or needs, a session. Of readers and slots that is a wait whose session
// could not be ended: it had got no further.
func (f *ForUpdate) bySession(h *driver.Hold) bool {
	if exclusiveHold(h) {
		return true
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.failed[h.ID] != nil
}

func (f *ForUpdate) release(ctx context.Context, holds []driver.Hold) ([]driver.Result, error) {
	results := make([]driver.Result, len(holds))
	ends := make([]ending, len(holds))
	parallel(len(holds), func(i int) { results[i], ends[i] = f.releaseOne(ctx, holds[i]) })
	var foreign, dead []int
	for i, e := range ends {
		switch e {
		case unknownHere:
			foreign = append(foreign, i)
		case diedBefore, endedMeanwhile:
			dead = append(dead, i)
		}
	}
	f.resolve(ctx, "release", f.db.ReleaseStep, holds, foreign, dead, results)
	for i, e := range ends {
		if s := results[i].Status; e == endedMeanwhile && (s == driver.Removed || s == driver.Taken) { // its end is the release
			results[i] = driver.Result{Status: driver.Released, Final: true}
		}
	}
	for i, q := range holds {
		if q.Undo && ends[i] != answered && results[i].Status == driver.Removed {
			f.endRow(ctx, q)
		}
	}
	for _, i := range foreign {
		// No attempt of this Store by that ID is under way, nor of unknown outcome.
		results[i].Final = results[i].Status != driver.Unknown
	}
	f.tellWanted(ctx, holds, results)
	return batchError(ctx, results)
}

// ending is what releaseOne found.
type ending uint8

const (
	answered       ending = iota
	unknownHere           // this Store knows of no such hold; the lease row must tell
	diedBefore            // the session had ended; the lease row tells how
	endedMeanwhile        // the session has ended, and gave no answer to the release, which may have been its end
)

func (f *ForUpdate) releaseOne(ctx context.Context, q driver.Hold) (driver.Result, ending) {
	h := f.get(q.Key, q.ID)
	if h == nil {
		f.mu.Lock()
		x := f.failed[q.ID]
		f.mu.Unlock()
		if x == nil || x.key != q.Key {
			return driver.Result{}, unknownHere
		}
		return f.undo(ctx, q, x), answered
	}
	select {
	case h.sem <- struct{}{}:
		defer func() { <-h.sem }()
	case <-ctx.Done():
		return driver.Result{Err: conn.MaybeApplied(f.lease.What("release"), fmt.Errorf("%w: %w", ErrUnanswered, ctx.Err()))}, answered
	}
	if !f.take(h) {
		return driver.Result{}, unknownHere
	}
	h.ended = true
	n := h.session
	x := &failure{key: q.Key, keeps: q.Undo && h.keeps, granted: true}
	died := n.Broken // a heartbeat found it dead
	var err error
	if !died {
		if n.Closed(ctx) { // behind a proxy the server may have it still
			n.Broken, n.Locks, err = true, false, sqldriver.ErrBadConn
		} else {
			err = rollBack(ctx, n)
		}
		if err != nil {
			ended, gone := f.endSession(ctx, n)
			died = gone && !ended
			if !gone {
				x.session = n
			}
		}
	}
	n.Put()
	x.keeps = x.keeps || q.Undo && x.session != nil // else another run may take the lease row for live
	switch {
	case x.keeps, x.session != nil:
		f.note(q.ID, x, max(q.TTL, q.Keep))
	case died && err != nil && conn.Number(err) == 0 && !conn.Undone(err): // by a number the server, or a proxy, says that it was over
		return driver.Result{}, endedMeanwhile
	case died:
		return driver.Result{}, diedBefore
	default:
		return driver.Result{Status: driver.Released, Final: true, Wanted: h.hint()}, answered
	}
	if x.session != nil {
		return driver.Result{Err: conn.MaybeApplied(f.lease.What("release"), err)}, answered
	}
	return f.undo(ctx, q, x), answered
}
