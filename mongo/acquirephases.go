package mongolock

import (
	"context"

	"github.com/rowlock/rowlock/internal/split"
	"github.com/rowlock/rowlock/mongo/internal/document"
)

// inPhases takes the entries of readers and slots: by one numbered command with a statement for each
// and a find, as the keys without a document; guarded and pinned ones, and what a corrupt or blocked
// document has stopped, singly.
func (b *batch) inPhases(ctx context.Context, entries []int) {
	var together, single, lined []int
	for _, i := range entries {
		if q := b.reqs[i]; q.Guarded || q.Pinned || q.Apart {
			single = append(single, i)
		} else {
			together = append(together, i)
		}
	}
	if len(together) < 2 {
		single, together = entries, nil
	}
	if len(together) > 0 {
		if b.numbered(ctx, together, true, alone) == nil {
			b.answerJoins(ctx, b.undecided(together))
		}
		for _, i := range b.undecided(together) {
			if b.s.crowd.has(b.reqs[i].Key) {
				lined = append(lined, i)
			} else {
				single = append(single, i)
			}
		}
	}
	b.inLine(ctx, lined)
	split.InParallel(len(single), split.Parts, func(n int) {
		i := single[n]
		b.decide(ctx, i, b.s.acquireOne(ctx, b.reqs[i]))
	})
}

// answerJoins reads what became of joins and decides those that are clear. A local read is
// enough, as in answer.
func (b *batch) answerJoins(ctx context.Context, entries []int) {
	if len(entries) == 0 {
		return
	}
	states, err := b.s.statesOf(ctx, b.holdsAt(entries), nil)
	if err != nil {
		b.Fail(ctx, entries, b.sentBefore(b.s.cmd.Fail(ctx, "acquire "+names(keysAt(b.reqs, entries)), err)))
		return
	}
	var taken []int
	var found []*document.State
	for _, i := range entries {
		r, there := states[b.reqs[i].Key]
		switch {
		case there && needsLine(b.reqs[i], r):
			b.s.crowded(r.Key)
		case there && r.Has(b.reqs[i]):
			taken, found = append(taken, i), append(found, &r)
		case there && r.Refuses():
			b.results[i], b.done[i] = r.RefusedTo(b.reqs[i]), true
		}
	}
	if err := b.s.fence.Find(ctx, found...); err != nil {
		b.Fail(ctx, taken, b.sentBefore(b.s.cmd.Fail(ctx, "acquire "+names(keysAt(b.reqs, taken)), err)))
		return
	}
	split.InParallel(len(taken), split.Parts, func(n int) {
		i := taken[n]
		b.results[i], b.done[i] = b.s.finishGrant(ctx, b.reqs[i], *found[n], fenceWait), true
	})
}
