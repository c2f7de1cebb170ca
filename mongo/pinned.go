package mongolock

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/split"
	"github.com/rowlock/rowlock/mongo/internal/command"
	"github.com/rowlock/rowlock/mongo/internal/document"
)

// raiseAll answers for entries that are taken but for their fences. Not by one command,
// which would stop at the first that is kept down; and none is waited for of which it is
// known that a transaction has written it, unless that could be ended.
func (b *batch) raiseAll(ctx context.Context, entries []int, states map[string]document.State) {
	var ofPhase []int
	entries = slices.DeleteFunc(slices.Clone(entries), func(i int) bool {
		r := states[b.reqs[i].Key]
		if is := r.OfPhase || r.Fresh || b.reqs[i].Stand; is {
			ofPhase = append(ofPhase, i)
			return true
		}
		return false
	})
	raise, back, apart := b.partitionWritten(ctx, entries, states)
	raise = append(slices.Clone(raise), ofPhase...)
	holds := make([]driver.Hold, len(back))
	all := make([]int, len(back))
	for n, i := range back {
		holds[n], all[n] = driver.Hold{Key: b.reqs[i].Key, ID: b.reqs[i].ID, Undo: true}, n
	}
	steps := []func(){
		func() {
			split.InParallel(len(raise), split.Parts, func(n int) {
				i := raise[n]
				r := states[b.reqs[i].Key]
				g := b.s.finishGrant(ctx, b.reqs[i], r, fenceWait)
				b.results[i], b.done[i] = r.WithLeft(g, b.reqs[i], time.Since(b.began)), true
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
	split.InParallel(len(steps), len(steps), func(i int) { steps[i]() })
}

// partitionWritten separates the entries whose fences an open transaction has written, after
// what InTx or Once had left open was ended. To find them takes a command for almost
// each: of many only where all came for that, otherwise all are sent back to come apart
// from the keys that nobody pins. Of those that it cannot ask about it leaves the answer
// to the raise.
func (b *batch) partitionWritten(ctx context.Context, entries []int, states map[string]document.State) (not, written []int, apart bool) {
	s, keys := b.s, keysAt(b.reqs, entries)
	if len(entries) == 0 {
		return nil, nil, false
	}
	if some, err := s.fence.Written(ctx, keys...); err != nil || !some {
		return entries, nil, false
	}
	if len(entries) > split.Parts && slices.ContainsFunc(entries, func(i int) bool { return !b.reqs[i].Apart }) {
		return nil, entries, true
	}
	tokens := make([]int64, len(keys))
	for n, key := range keys {
		tokens[n] = states[key].Token
	}
	_, _ = s.fence.EndOlder(ctx, keys, tokens)
	open, err := s.fence.WhichWritten(ctx, keys)
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

// maxLooks bounds the keys that stillPinned looks at in one call.
const maxLooks = split.Parts

// stillPinned answers for keys that were pinned the last time, without waiting, and
// returns those of the entries that it has no answer for: they are tried. So are those
// that InTx or Once of another process may pin, because only a try can end that. Of many
// keys it looks at some, chosen by chance, and while one of these is pinned the others
// stay so until a later call: each look is a command.
func (s *Store) stillPinned(ctx context.Context, reqs []driver.Request, entries []int, results []driver.Result) (rest []int) {
	states, err := s.states(ctx, keysAt(reqs, entries), nil)
	if err != nil || s.cmd.Standalone() {
		return entries
	}
	var fenced []int
	for _, i := range entries {
		switch q, r := reqs[i], states[reqs[i].Key]; {
		case r.Left > 0 && r.Excludes(q):
			results[i] = r.RefusedTo(q)
		case q.Mode == driver.Slot: // which one, a try tells
			rest = append(rest, i)
		case r.Fenced && r.OfPhase && q.Mode == driver.Exclusive:
			if s.pinnedByPhase(ctx, q.Key) {
				results[i] = driver.Result{Status: driver.Pinned}
			} else {
				rest = append(rest, i)
			}
		case r.Fenced:
			fenced = append(fenced, i)
		default:
			rest = append(rest, i)
		}
	}
	rand.Shuffle(len(fenced), func(x, y int) { fenced[x], fenced[y] = fenced[y], fenced[x] })
	some := fenced[:min(maxLooks, len(fenced))]
	open := make([]bool, len(some))
	split.InParallel(len(some), command.PinnedPlaces, func(n int) {
		is, err := s.fence.Written(ctx, reqs[some[n]].Key)
		open[n] = is && err == nil
	})
	more := fenced[len(some):]
	if len(more) > 0 && !slices.Contains(open, true) {
		if is, err := s.fence.WhichWritten(ctx, keysAt(reqs, more)); err == nil {
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
	endable := s.fence.Endable(ctx, keysAt(reqs, pinned))
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
