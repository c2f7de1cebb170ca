package mongolock

import (
	"context"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/rowlock/rowlock/driver"
)

// Release implements driver.Store: one command for all holds, and one for each
// undo whose attempt was not answered (see undo.go). A release does not wait for
// the guarded transactions of the lease that are still open; the next grant does.
func (s *Store) Release(ctx context.Context, holds []driver.Hold) ([]driver.Result, error) {
	if err := s.enter(ctx, "release", len(holds)); err != nil {
		return nil, err
	}
	results := make([]driver.Result, len(holds))
	var plain, undos, unordered []int
	for i, h := range holds {
		switch {
		case !h.Undo:
			plain = append(plain, i)
		case s.sessions.find(h.ID) != nil:
			undos = append(undos, i)
		default:
			unordered = append(unordered, i)
		}
	}
	// One command for each kind, all at once, so that none waits for another.
	lanes := []func(){}
	for _, group := range [][]int{plain, unordered} {
		if len(group) > 0 {
			lanes = append(lanes, func() { s.endMany(ctx, holds, group, results) })
		}
	}
	for _, i := range undos {
		lanes = append(lanes, func() { results[i] = s.undo(ctx, holds[i]) })
	}
	if len(lanes) == 1 {
		lanes[0]()
	} else {
		each(len(lanes), func(i int) { lanes[i]() })
	}
	if len(results) == 1 && results[0].Status == driver.Unknown {
		return nil, results[0].Err
	}
	return results, nil
}

// endMany ends the holds of group, which are of one kind.
func (s *Store) endMany(ctx context.Context, holds []driver.Hold, group []int, results []driver.Result) {
	if len(group) == 1 {
		results[group[0]] = s.end(ctx, holds[group[0]])
		return
	}
	some := make([]driver.Hold, len(group))
	for n, i := range group {
		some[n] = holds[i]
	}
	reply, err := s.write(ctx, nil, s.ending(some), batchWait(len(some)))
	var fates []driver.Status
	switch {
	case err == nil && max(matched(reply.Raw), reply.earlier) >= int64(len(some)):
		fates = make([]driver.Status, len(some))
		for n := range fates {
			fates[n] = driver.Released
		}
	case err == nil:
		fates, err = s.fates(ctx, reply.Raw, some)
	case blocked(err) || conflicted(err):
		parts(len(group), func(from, to int) { s.endMany(ctx, holds, group[from:to], results) })
		// The command that was stopped may have ended some, and others have taken those
		// keys since: what is not found any more was not lost for that.
		for _, i := range group {
			if st := results[i].Status; st == driver.Taken || st == driver.Removed {
				results[i] = driver.Result{Status: driver.Released}
			}
		}
		return
	}
	var failed *driver.Error
	if err != nil {
		failed = s.fail(ctx, "release "+names(some), err)
	}
	for n, i := range group {
		if failed != nil {
			results[i] = unknown(failed)
		} else {
			results[i] = s.ended(fates[n], some[n])
		}
	}
}

// end ends one hold.
func (s *Store) end(ctx context.Context, h driver.Hold) driver.Result {
	what := fmt.Sprintf("release %q", h.Key)
	for tries := 0; ; tries++ {
		reply, err := s.write(ctx, nil, s.ending([]driver.Hold{h}), blockWait)
		switch {
		case err == nil && max(matched(reply.Raw), reply.earlier) > 0:
			return s.ended(driver.Released, h)
		case err == nil:
			fates, err := s.fates(ctx, reply.Raw, []driver.Hold{h})
			if err != nil {
				return unknown(s.fail(ctx, what, err))
			}
			return s.ended(fates[0], h)
		case conflicted(err) && tries < 3:
			continue
		}
		return unknown(s.fail(ctx, what, err))
	}
}

// ended turns the fate of a hold into the answer to its release. A hold that is
// there after all came later than the release: an attempt that was still on its
// way. An undo that ended the hold is final: without a number an ID goes out once,
// and for one that was sent with a number there is a kept session (undo.go), but
// on a standalone server.
func (s *Store) ended(fate driver.Status, h driver.Hold) driver.Result {
	if fate == driver.Alive {
		return unknown(&driver.Error{Err: fmt.Errorf("mongo: release %q: its acquire arrived after the release", h.Key)})
	}
	return driver.Result{Status: fate, Final: h.Undo && fate == driver.Released && !s.standalone.Load()}
}

// ending removes the holds. Plain operators, not a pipeline, so that a change
// stream always sees which field went.
func (s *Store) ending(holds []driver.Hold) bson.D {
	return d{
		{Key: "update", Value: s.leases},
		{Key: "updates", Value: a{d{
			{Key: "q", Value: byHolds(holds)},
			{Key: "u", Value: removal(holds[0].Undo)},
			{Key: "multi", Value: len(holds) > 1},
		}}},
	}
}

// removal is what happens to a document whose hold ends. keepUntil, which MinHold
// wrote at the grant, outlives the release of a lease, but not an undo.
func removal(keptToo bool) d {
	gone := d{{Key: "hold", Value: ""}}
	if keptToo {
		gone = append(gone, bson.E{Key: "keepUntil", Value: ""})
	}
	return d{{Key: "$unset", Value: gone}, {Key: "$currentDate", Value: op("expiresAt", true)}}
}
