package mongolock

import (
	"context"
	"errors"
	"math/rand/v2"

	"github.com/rowlock/rowlock/driver"
)

// A key is pinned while an open transaction of an older holder has written its fence.
// That a command waited in vain proves none: on a busy server all commands take long.
// Two transactions that write one document do not wait for each other, the second one
// fails at once. So a write in a transaction of the Store asks, without waiting.

// errPinned: an open transaction has written the fence of the key.
var errPinned = errors.New("an open guarded transaction of an older holder must end first")

// written reports whether an open transaction has written the fence of one of the keys.
// It writes them too, in a transaction that cannot live: its last statement is refused,
// with which the server undoes it, so nothing stays open whatever becomes of this
// process. A guard that comes at that moment is told to try again.
func (s *Store) written(ctx context.Context, keys ...string) (bool, error) {
	o, err := s.sessions.take()
	if err != nil {
		return false, err
	}
	o.number++
	updates := a{}
	for _, key := range keys {
		updates = append(updates, d{{Key: "q", Value: op("_id", keyID(key))}, {Key: "u", Value: op("$inc", op("n", int64(1)))}})
	}
	never := d{{Key: "q", Value: op("_id", barrier)}, {Key: "u", Value: op("$set", op("_id", "another"))}, {Key: "upsert", Value: true}}
	_, err = s.send(ctx, o.sess, d{
		{Key: "update", Value: s.fences},
		{Key: "updates", Value: append(updates, never)},
		{Key: "txnNumber", Value: o.number},
		{Key: "autocommit", Value: false},
		{Key: "startTransaction", Value: true},
	}, min(undoWait, left(ctx)))
	command, _ := codes(err)
	if command != codeWriteConflict && command != codeImmutableField {
		return false, err
	}
	s.sessions.give(o)
	return command == codeWriteConflict, nil
}

// whichWritten reports it for each key: by one command where there is none.
func (s *Store) whichWritten(ctx context.Context, keys []string) ([]bool, error) {
	open := make([]bool, len(keys))
	some, err := s.written(ctx, keys...)
	if err != nil || !some {
		return open, err
	}
	errs := make([]error, len(keys))
	each(len(keys), parallel, func(i int) { open[i], errs[i] = s.written(ctx, keys[i]) })
	return open, errors.Join(errs...)
}

// raiseAll answers for entries that are taken but for their fences. Not by one command,
// which would stop at the first that is kept down; and none is waited for of which it is
// known that a transaction has written it, unless that could be ended.
func (b *batch) raiseAll(ctx context.Context, entries []int, rows map[string]row) {
	s := b.s
	raise, back := b.sortWritten(ctx, entries)
	if len(back) > 0 {
		keys, tokens := b.keys(back), make([]int64, len(back))
		for n, key := range keys {
			tokens[n] = rows[key].token
		}
		if ended, _ := s.endAllOlder(ctx, keys, tokens); ended {
			var more []int
			more, back = b.sortWritten(ctx, back)
			raise = append(raise, more...)
		}
	}
	holds := make([]driver.Hold, len(back))
	all := make([]int, len(back))
	for n, i := range back {
		holds[n], all[n] = driver.Hold{Key: b.reqs[i].Key, ID: b.reqs[i].ID, Undo: true}, n
	}
	lanes := []func(){
		func() {
			each(len(raise), parallel, func(n int) {
				i := raise[n]
				b.results[i], b.done[i] = s.told(ctx, b.reqs[i], rows[b.reqs[i].Key], fenceWait), true
			})
		},
		func() {
			results := make([]driver.Result, len(back))
			if len(back) > 0 {
				s.endMany(ctx, holds, all, results)
			}
			for n, i := range back {
				b.results[i], b.done[i] = driver.Result{Status: driver.Pinned}, true
				if results[n].Status == driver.Unknown {
					b.results[i] = results[n]
				}
			}
		},
	}
	each(len(lanes), len(lanes), func(i int) { lanes[i]() })
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

// sortWritten tells the entries apart whose fences an open transaction has written. Of
// those that it cannot ask about it leaves the answer to the raise.
func (b *batch) sortWritten(ctx context.Context, entries []int) (not, written []int) {
	open, err := b.s.whichWritten(ctx, b.keys(entries))
	if err != nil {
		return entries, nil
	}
	for n, i := range entries {
		if open[n] {
			written = append(written, i)
		} else {
			not = append(not, i)
		}
	}
	return not, written
}

// maxLooks bounds the keys that stillPinned looks at in one call.
const maxLooks = 2 * parallel

// stillPinned answers for keys that were pinned the last time, without waiting, and
// returns those of the entries that it has no answer for: they are tried. What InTx
// or Once had left open was ended before the answer of the last time. Of many keys it
// looks at some, chosen by chance, and the others stay pinned until a later call: each
// look is a command.
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
	order := rand.Perm(len(entries))
	each(len(entries), parallel, func(n int) {
		i := entries[order[n]]
		switch r := rows[reqs[i].Key]; {
		case r.left > 0 && r.hold != reqs[i].ID:
			results[i] = r.refused()
			return
		case r.fenced && n >= maxLooks:
			results[i] = driver.Result{Status: driver.Pinned}
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
