package mongolock

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mongo/internal/document"
)

// A key is pinned while an open transaction of an older holder has written its fence.
// That a command waited in vain proves none: on a busy server all commands take long.
// Two transactions that write one document do not wait for each other, the second one
// fails at once. So a write in a transaction of the Store asks, without waiting.

// errPinned: an open transaction has written the fence of the key.
var errPinned = errors.New("an open guarded transaction of an older holder must end first")

// fenceWritten reports whether an open transaction has written the fence of one of the keys.
// It writes them too, in a transaction that cannot live: its last statement is refused,
// with which the server undoes it, so nothing stays open whatever becomes of this
// process. A guard that comes at that moment is told to try again.
func (s *Store) fenceWritten(ctx context.Context, keys ...string) (bool, error) {
	sess, err := s.sessions.get()
	if err != nil {
		return false, err
	}
	sess.number++
	updates := bson.A{}
	for _, key := range keys {
		updates = append(updates, bson.D{{Key: "q", Value: document.ByKey(key)}, {Key: "u", Value: document.Op("$inc", document.Op("n", int64(1)))}})
	}
	never := bson.D{{Key: "q", Value: document.Op("_id", barrier)}, {Key: "u", Value: document.Op("$set", document.Op("_id", "another"))}, {Key: "upsert", Value: true}}
	_, err = s.send(ctx, sess.sess, bson.D{
		{Key: "update", Value: s.fences},
		{Key: "updates", Value: append(updates, never)},
		{Key: "txnNumber", Value: sess.number},
		{Key: "autocommit", Value: false},
		{Key: "startTransaction", Value: true},
	}, min(undoWait, left(ctx)))
	command, _ := codes(err)
	if command != codeWriteConflict && command != codeImmutableField {
		return false, err
	}
	s.sessions.put(sess)
	return command == codeWriteConflict, nil
}

// fencesWritten reports it for each key: of all by one command, and where some are written
// by commands with smaller and smaller parts.
func (s *Store) fencesWritten(ctx context.Context, keys []string) ([]bool, error) {
	open := make([]bool, len(keys))
	return open, s.findWritten(ctx, keys, open)
}

func (s *Store) findWritten(ctx context.Context, keys []string, open []bool) error {
	some, err := s.fenceWritten(ctx, keys...)
	if err != nil || !some {
		return err
	}
	if len(keys) == 1 {
		open[0] = true
		return nil
	}
	size := max(1, len(keys)/parallel)
	errs := make([]error, (len(keys)+size-1)/size)
	inParallel(len(errs), parallel, func(i int) {
		from, to := i*size, min(len(keys), (i+1)*size)
		errs[i] = s.findWritten(ctx, keys[from:to], open[from:to])
	})
	return errors.Join(errs...)
}

// raiseAll answers for entries that are taken but for their fences. Not by one command,
// which would stop at the first that is kept down; and none is waited for of which it is
// known that a transaction has written it, unless that could be ended.
func (b *batch) raiseAll(ctx context.Context, entries []int, states map[string]document.State) {
	raise, back, apart := b.partitionWritten(ctx, entries, states)
	holds := make([]driver.Hold, len(back))
	all := make([]int, len(back))
	for n, i := range back {
		holds[n], all[n] = driver.Hold{Key: b.reqs[i].Key, ID: b.reqs[i].ID, Undo: true}, n
	}
	steps := []func(){
		func() {
			inParallel(len(raise), parallel, func(n int) {
				i := raise[n]
				b.results[i], b.done[i] = b.s.finishGrant(ctx, b.reqs[i], states[b.reqs[i].Key], fenceWait), true
			})
		},
		func() {
			results := make([]driver.Result, len(back))
			if len(back) > 0 {
				b.s.endMany(ctx, holds, all, results)
			}
			for n, i := range back {
				b.results[i], b.done[i] = driver.Result{Status: driver.Pinned, Apart: apart}, true
				if results[n].Status == driver.Unknown {
					b.results[i] = results[n]
				}
			}
		},
	}
	inParallel(len(steps), len(steps), func(i int) { steps[i]() })
}

// partitionWritten separates the entries whose fences an open transaction has written, after
// what InTx or Once had left open was ended. To find them takes a command for almost
// each: of many only where all came for that, otherwise all are sent back to come apart
// from the keys that nobody pins. Of those that it cannot ask about it leaves the answer
// to the raise.
func (b *batch) partitionWritten(ctx context.Context, entries []int, states map[string]document.State) (not, written []int, apart bool) {
	s, keys := b.s, b.keys(entries)
	if some, err := s.fenceWritten(ctx, keys...); err != nil || !some {
		return entries, nil, false
	}
	if len(entries) > parallel && slices.ContainsFunc(entries, func(i int) bool { return !b.reqs[i].Apart }) {
		return nil, entries, true
	}
	tokens := make([]int64, len(keys))
	for n, key := range keys {
		tokens[n] = states[key].Token
	}
	_, _ = s.endAllOlder(ctx, keys, tokens)
	open, err := s.fencesWritten(ctx, keys)
	if err != nil {
		return entries, nil, false
	}
	for n, i := range entries {
		if open[n] {
			written = append(written, i)
		} else {
			not = append(not, i)
		}
	}
	return not, written, false
}

// raiseUntilDone raises a fence however long the server takes. The error is errPinned if
// an open transaction is in the way.
func (s *Store) raiseUntilDone(ctx context.Context, key string, token int64) error {
	for wait := blockWait; ; wait *= 2 {
		err := s.raiseWithin(ctx, key, token, nil, wait)
		if !blocked(err) || ctx.Err() != nil || wait > maxWriteWait {
			return err
		}
		if open, unsure := s.fenceWritten(ctx, key); open {
			return errPinned
		} else if unsure != nil && !blocked(unsure) {
			return unsure
		}
	}
}

// maxLooks bounds the keys that stillPinned looks at in one call.
const maxLooks = parallel

// stillPinned answers for keys that were pinned the last time, without waiting, and
// returns those of the entries that it has no answer for: they are tried. So are those
// that InTx or Once of another process may pin, because only a try can end that. Of many
// keys it looks at some, chosen by chance, and while one of these is pinned the others
// stay so until a later call: each look is a command.
func (s *Store) stillPinned(ctx context.Context, reqs []driver.Request, entries []int, results []driver.Result) (rest []int) {
	keys := make([]string, len(entries))
	for n, i := range entries {
		keys[n] = reqs[i].Key
	}
	states, err := s.states(ctx, keys, nil)
	if err != nil || s.standalone.Load() {
		return entries
	}
	var fenced []int
	for _, i := range entries {
		switch r := states[reqs[i].Key]; {
		case r.Left > 0 && r.Hold != reqs[i].ID:
			results[i] = r.Refused()
		case r.Fenced:
			fenced = append(fenced, i)
		default:
			rest = append(rest, i)
		}
	}
	rand.Shuffle(len(fenced), func(x, y int) { fenced[x], fenced[y] = fenced[y], fenced[x] })
	some := fenced[:min(maxLooks, len(fenced))]
	open := make([]bool, len(some))
	inParallel(len(some), pinnedConns, func(n int) {
		is, err := s.fenceWritten(ctx, reqs[some[n]].Key)
		open[n] = is && err == nil
	})
	more := fenced[len(some):]
	if len(more) > 0 && !slices.Contains(open, true) {
		keys := make([]string, len(more))
		for n, i := range more {
			keys[n] = reqs[i].Key
		}
		if is, err := s.fencesWritten(ctx, keys); err == nil {
			some, open, more = fenced, append(open, is...), nil
		}
	}
	var pinned []int
	for n, i := range some {
		if open[n] {
			pinned = append(pinned, i)
		} else {
			rest = append(rest, i)
		}
	}
	endable := s.endable(ctx, reqs, pinned)
	for _, i := range pinned {
		if endable[reqs[i].Key] {
			rest = append(rest, i)
		} else {
			results[i] = driver.Result{Status: driver.Pinned}
		}
	}
	for _, i := range more {
		results[i] = driver.Result{Status: driver.Pinned}
	}
	return rest
}

// endable lists the keys whose fence names a session that this Store has not ended yet.
func (s *Store) endable(ctx context.Context, reqs []driver.Request, entries []int) map[string]bool {
	if len(entries) == 0 {
		return nil
	}
	keys := make([]string, len(entries))
	for n, i := range entries {
		keys[n] = reqs[i].Key
	}
	docs, _ := s.fencesWithSession(ctx, keys)
	endable := make(map[string]bool)
	for _, doc := range docs {
		endable[document.Parse(doc).Key] = !s.killed.has(sessionOf(doc))
	}
	return endable
}
