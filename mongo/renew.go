package mongolock

import (
	"context"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/rowlock/rowlock/driver"
)

// Renew implements driver.Store: one command for all holds. If a foreign
// transaction blocks one document, the others go on in parts (parts.go), so that
// only that one is Unknown.
//
// The expiry never moves back: the renewal may be the late ghost of an earlier
// one. What the update did not match is read at the majority, not before the
// moment of the update, because a primary that was deposed without knowing still
// answers a local read with a state in which the hold lives.
func (s *Store) Renew(ctx context.Context, holds []driver.Hold) ([]driver.Result, error) {
	if err := s.enter(ctx, "renew", len(holds)); err != nil {
		return nil, err
	}
	if len(holds) == 0 {
		return nil, nil
	}
	wait := blockWait
	if len(holds) > 1 {
		wait = batchWait(len(holds))
	}
	results := make([]driver.Result, len(holds))
	if err := s.renew(ctx, holds, results, wait); err != nil {
		return nil, err
	}
	return results, nil
}

// renew returns an error, or fills results.
func (s *Store) renew(ctx context.Context, holds []driver.Hold, results []driver.Result, wait time.Duration) error {
	reply, err := s.write(ctx, nil, s.renewal(holds), wait)
	switch {
	case err == nil:
	case (blocked(err) || conflicted(err)) && len(holds) > 1:
		parts(len(holds), func(from, to int) {
			part := results[from:to]
			if err := s.renew(ctx, holds[from:to], part, batchWait(to-from)); err != nil {
				for i := range part {
					part[i] = driver.Result{Status: driver.Unknown, Err: err}
				}
			}
		})
		return nil
	default:
		return s.fail(ctx, "renew "+names(holds), err)
	}
	if matched(reply.Raw) >= int64(len(holds)) {
		for i := range results {
			results[i].Status = driver.Alive
		}
		return nil
	}
	fates, err := s.fates(ctx, reply.Raw, holds)
	if err != nil {
		return s.fail(ctx, "renew "+names(holds), err)
	}
	for i := range results {
		results[i].Status = fates[i]
	}
	return nil
}

// renewal is one update statement for each length of time that is asked for.
func (s *Store) renewal(holds []driver.Hold) bson.D {
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
	updates := a{}
	for _, t := range terms {
		end := plus(now, millis(t.ttl))
		if t.maxHold > 0 {
			end = op("$min", a{end, plus("$acquiredAt", millis(t.maxHold))})
		}
		updates = append(updates, d{
			{Key: "q", Value: byHolds(groups[t])},
			{Key: "u", Value: a{op("$set", op("expiresAt", op("$max", a{"$expiresAt", end})))}},
			{Key: "multi", Value: len(groups[t]) > 1},
		})
	}
	return d{{Key: "update", Value: s.leases}, {Key: "updates", Value: updates}, {Key: "ordered", Value: false}}
}

// byHolds matches the documents that have these holds. Hold IDs are unique, so
// the two lists cannot cross.
func byHolds(holds []driver.Hold) d {
	if len(holds) == 1 {
		return d{{Key: "_id", Value: keyID(holds[0].Key)}, {Key: "hold", Value: holdID(holds[0].ID)}}
	}
	keys, ids := make(a, len(holds)), make(a, len(holds))
	for i, h := range holds {
		keys[i], ids[i] = keyID(h.Key), holdID(h.ID)
	}
	return d{{Key: "_id", Value: op("$in", keys)}, {Key: "hold", Value: op("$in", ids)}}
}

// matched is the number of documents that an update command found.
func matched(reply bson.Raw) int64 {
	n, _ := reply.Lookup("n").AsInt64OK()
	return n
}

// fates reads what became of holds, at the majority and not before the moment of
// reply. A standalone server has no such moment, and no other node either.
func (s *Store) fates(ctx context.Context, reply bson.Raw, holds []driver.Hold) ([]driver.Status, error) {
	var after *bson.Timestamp
	if t, i, ok := reply.Lookup("operationTime").TimestampOK(); ok {
		after = &bson.Timestamp{T: t, I: i}
	}
	keys := make([]string, len(holds))
	for i, h := range holds {
		keys[i] = h.Key
	}
	rows, err := s.rows(ctx, keys, after)
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

// names is for messages: one key by its name, more by their number.
func names(holds []driver.Hold) string {
	if len(holds) == 1 {
		return fmt.Sprintf("%q", holds[0].Key)
	}
	return fmt.Sprintf("%d keys", len(holds))
}
