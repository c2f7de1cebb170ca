package mongolock

import (
	"context"
	"errors"

	"github.com/rowlock/rowlock/driver"
)

// A key is pinned while an open transaction of an older holder has written its fence.
// That a command waited in vain proves none: on a busy server all commands take long.
// Two transactions that write one document do not wait for each other, the second one
// fails at once. So a write in a transaction of the Store asks, without waiting.

// errPinned: an open transaction has written the fence of the key.
var errPinned = errors.New("an open guarded transaction of an older holder must end first")

// written reports whether an open transaction has written the fence of key. It writes
// it too, in a transaction that cannot live: its next statement is refused, with which
// the server undoes it, so nothing stays open whatever becomes of this process. A guard
// that comes at that moment is told to try again.
func (s *Store) written(ctx context.Context, key string) (bool, error) {
	o, err := s.sessions.take()
	if err != nil {
		return false, err
	}
	o.number++
	fence := op("_id", keyID(key))
	_, err = s.send(ctx, o.sess, d{
		{Key: "update", Value: s.fences},
		{Key: "updates", Value: a{
			d{{Key: "q", Value: fence}, {Key: "u", Value: op("$inc", op("n", int64(1)))}},
			d{{Key: "q", Value: fence}, {Key: "u", Value: op("$set", op("_id", barrier))}}, // no document may change its _id
		}},
		{Key: "txnNumber", Value: o.number},
		{Key: "autocommit", Value: false},
		{Key: "startTransaction", Value: true},
	}, min(undoWait, left(ctx)))
	switch command, _ := codes(err); {
	case err == nil: // no fence, nothing written
	case command == codeWriteConflict || command == codeImmutableField:
		s.sessions.give(o)
		return command == codeWriteConflict, nil
	default:
		return false, err
	}
	o.number++ // a transaction with a larger number ends it
	s.sessions.give(o)
	return false, nil
}

// raisePatiently raises a fence however long the server takes. The error is errPinned if
// an open transaction is in the way.
func (s *Store) raisePatiently(ctx context.Context, key string, token int64) error {
	for wait := blockWait; ; wait *= 2 {
		err := s.raiseWithin(ctx, key, token, nil, wait)
		if !blocked(err) || ctx.Err() != nil || wait > insistMost {
			return err
		}
		if open, unsure := s.written(ctx, key); open {
			return errPinned
		} else if unsure != nil && !blocked(unsure) {
			return unsure
		}
	}
}

// stillPinned answers for keys that were pinned the last time, without waiting, and
// returns those of the entries that it has no answer for: they are tried. What InTx
// or Once had left open was ended before the answer of the last time.
func (s *Store) stillPinned(ctx context.Context, reqs []driver.Request, entries []int, results []driver.Result) (rest []int) {
	keys := make([]string, len(entries))
	for n, i := range entries {
		keys[n] = reqs[i].Key
	}
	rows, err := s.rows(ctx, keys, nil)
	if err != nil || s.standalone.Load() {
		return entries
	}
	tried := make([]bool, len(reqs))
	each(len(entries), parallel, func(n int) {
		i := entries[n]
		switch r := rows[reqs[i].Key]; {
		case r.left > 0 && r.hold != reqs[i].ID:
			results[i] = r.refused()
			return
		case r.fenced:
			if open, err := s.written(ctx, r.key); err == nil && open {
				results[i] = driver.Result{Status: driver.Pinned}
				return
			}
		}
		tried[i] = true
	})
	for _, i := range entries {
		if tried[i] {
			rest = append(rest, i)
		}
	}
	return rest
}
