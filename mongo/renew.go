package mongolock

import (
	"context"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/rowlock/rowlock/driver"
)

// Renew implements driver.Store: one command for all holds. If a foreign
// transaction blocks one document, the others are renewed all the same (split.go),
// so that only that one is Unknown.
//
// The expiry never moves back: the renewal may be the late ghost of an earlier
// one. What the update did not match is read at the majority, not before the
// moment of the update, because a primary that was deposed without knowing still
// answers a local read with a state in which the hold lives.
func (s *Store) Renew(ctx context.Context, holds []driver.Hold) ([]driver.Result, error) {
	if err := s.enterMany(ctx, "renew", len(holds), maxRenewals); err != nil {
		return nil, err
	}
	if len(holds) == 0 {
		return nil, nil
	}
	ctx = priority(ctx)
	r := &renewal{s: s, holds: holds, results: make([]driver.Result, len(holds)), began: time.Now()}
	var err error
	if len(holds) == 1 {
		err = r.send(ctx, []int{0}, blockWait)
	} else {
		// One after the other: thousands of leases are to be renewed on two connections.
		t := splitter{limit: &s.limits.renew, parallel: 1, send: r.send, resend: r.send, progress: r.progress, single: r.single, fail: r.fail}
		err = t.run(ctx, inOrder(len(holds), func(i int) string { return holds[i].Key }))
	}
	if err != nil {
		return nil, s.fail(ctx, "renew "+names(keysOf(holds)), err)
	}
	for i, res := range r.results {
		if res.Status != driver.Alive && res.Status != driver.Unknown {
			s.own.drop(holds[i])
		}
	}
	return r.results, nil
}

// renewal is one Renew.
type renewal struct {
	s       *Store
	holds   []driver.Hold
	results []driver.Result
	began   time.Time
}

// send renews the entries by one command.
func (r *renewal) send(ctx context.Context, entries []int, wait time.Duration) error {
	holds, start := pickHolds(r.holds, entries), time.Now()
	reply, err := r.s.write(ctx, nil, r.s.renewalOf(holds), wait)
	if err != nil {
		return stopOf(err)
	}
	if len(holds) > 1 {
		r.s.limits.renew.observe(len(holds), time.Since(start))
	}
	if matched(reply.Raw) >= int64(len(holds)) {
		for _, i := range entries {
			r.results[i].Status = driver.Alive
		}
		return nil
	}
	fates, err := r.s.fates(ctx, reply.Raw, holds)
	if err != nil {
		return err
	}
	for n, i := range entries {
		r.results[i].Status = fates[n]
	}
	return nil
}

// progress finds those that a command renewed before it was stopped: their expiry is
// later than any earlier command could have made it. How long they are good for is
// what is left of it.
func (r *renewal) progress(ctx context.Context, stop error, entries []int) (single, rest []int, known bool) {
	rows, known := r.s.afterStop(ctx, stop, keysOf(pickHolds(r.holds, entries)))
	if !known {
		return nil, nil, false
	}
	since := time.Since(r.began)
	for _, i := range entries {
		h := r.holds[i]
		doc, there := rows[h.Key]
		switch st := fate(doc, there, h); {
		case st != driver.Alive:
			r.results[i].Status = st
		case doc.left > h.TTL/2 && doc.left >= h.TTL-since:
			r.results[i] = driver.Result{Status: driver.Alive, Left: doc.left}
		case single == nil:
			single = []int{i}
		default:
			rest = append(rest, i)
		}
	}
	return single, rest, true
}

func (r *renewal) single(ctx context.Context, entry int) bool {
	err := r.send(ctx, []int{entry}, partWait)
	if err != nil {
		r.fail(ctx, []int{entry}, err)
	}
	return stopped(err)
}

func (r *renewal) fail(ctx context.Context, entries []int, err error) {
	failed := r.s.fail(ctx, "renew "+names(keysOf(pickHolds(r.holds, entries))), err)
	for _, i := range entries {
		r.results[i] = unknown(failed)
	}
}

// renewalOf is one update statement for each length of time that is asked for.
func (s *Store) renewalOf(holds []driver.Hold) bson.D {
	type term struct{ ttl, maxHold time.Duration }
	groups := make(map[term][]driver.Hold)
	var terms []term
	for _, h := range holds {
		t := term{h.TTL, h.MaxHold}
		if groups[t] == nil {
			terms = append(terms, t)
		}
		groups[t] = append(groups[t], h)
	}
	updates := bson.A{}
	for _, t := range terms {
		end := plus(now, millis(t.ttl))
		if t.maxHold > 0 {
			end = op("$min", bson.A{end, plus("$acquiredAt", millis(t.maxHold))})
		}
		updates = append(updates, bson.D{
			{Key: "q", Value: byHolds(groups[t])},
			{Key: "u", Value: bson.A{op("$set", op("expiresAt", op("$max", bson.A{"$expiresAt", end})))}},
			{Key: "multi", Value: len(groups[t]) > 1},
		})
	}
	return bson.D{{Key: "update", Value: s.leases}, {Key: "updates", Value: updates}, {Key: "ordered", Value: false}}
}

// byHolds matches the documents that have these holds. Hold IDs are unique, so
// the two lists cannot cross.
func byHolds(holds []driver.Hold) bson.D {
	if len(holds) == 1 {
		return bson.D{{Key: "_id", Value: keyID(holds[0].Key)}, {Key: "hold", Value: holdID(holds[0].ID)}}
	}
	keys, ids := make(bson.A, len(holds)), make(bson.A, len(holds))
	for i, h := range holds {
		keys[i], ids[i] = keyID(h.Key), holdID(h.ID)
	}
	return bson.D{{Key: "_id", Value: op("$in", keys)}, {Key: "hold", Value: op("$in", ids)}}
}

// matched is the number of documents that an update, delete or findAndModify found.
func matched(reply bson.Raw) int64 {
	n, ok := reply.Lookup("n").AsInt64OK()
	if !ok {
		last, _ := reply.Lookup("lastErrorObject").DocumentOK()
		n, _ = last.Lookup("n").AsInt64OK()
	}
	return n
}

// fates reads what became of holds, at the majority and not before the moment of
// reply. A standalone server has no such moment, and no other node either.
func (s *Store) fates(ctx context.Context, reply bson.Raw, holds []driver.Hold) ([]driver.Status, error) {
	rows, err := s.rows(ctx, keysOf(holds), operationTime(reply))
	if err != nil {
		return nil, err
	}
	fates := make([]driver.Status, len(holds))
	for i, h := range holds {
		r, ok := rows[h.Key]
		fates[i] = fate(r, ok, h)
	}
	return fates, nil
}

// fate says what became of a hold. A released document keeps the token of its
// last hold. One that is free with a higher token was forced, or had another hold
// meanwhile; force leaves a mark until the next grant.
func fate(r row, there bool, h driver.Hold) driver.Status {
	stored := h.Stored
	if stored == 0 {
		stored = h.Token
	}
	switch {
	case !there:
		return driver.Removed
	case r.hold == h.ID:
		return driver.Alive
	case r.held():
		return driver.Taken
	case stored == 0:
		return driver.Removed
	case r.token > stored && r.forced:
		return driver.Forced
	case r.token > stored:
		return driver.Taken
	}
	return driver.Released
}
