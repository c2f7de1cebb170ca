package mongolock

import (
	"context"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/split"
	"github.com/rowlock/rowlock/mongo/internal/command"
	"github.com/rowlock/rowlock/mongo/internal/document"
)

// form is whether a statement knows of lines.
type form bool

const (
	alone  form = false
	inLine form = true
)

// needsLine reports whether q, which was answered as if there were no lines, is to be sent again in the form that knows of
// them: to stand, to pass the key on, to be told who stands, or to raise the fence of a key that was passed.
func needsLine(q driver.Request, r document.State) bool {
	if r.Has(q) { // it may have to raise a fence
		return r.Untold(q) && (r.Fenced || r.Fresh)
	}
	return q.Stand || r.Lined
}

// acquiringInLine is the update of an acquire that knows of lines.
func (s *Store) acquiringInLine(q driver.Request, standalone bool) bson.A {
	if s.short(q.Mode, q.Key) {
		return document.AcquiringExclusive(q, standalone)
	}
	return document.AcquiringInLine(q, standalone)
}

// inLine takes the entries in the form that knows of lines: those that are alike by one updateMany and a find, the others by one
// numbered command with a statement for each.
func (b *batch) inLine(ctx context.Context, entries []int) {
	var alike, together, single []int
	for _, i := range entries {
		b.s.crowded(b.reqs[i].Key)
		switch q := b.reqs[i]; {
		case q.Mode == driver.Shared && q.Guarded || q.Pinned || q.Apart:
			single = append(single, i)
		case b.s.short(q.Mode, q.Key) && (alike == nil || document.Alike(q, b.reqs[alike[0]])):
			alike = append(alike, i)
		default:
			together = append(together, i)
		}
	}
	if len(alike) == 1 {
		alike, together = nil, append(together, alike...)
	}
	if len(together) == 1 {
		single, together = append(single, together...), nil
	}
	b.inCommands(ctx, lineStep{b, &b.s.limits.alike, b.sendAlike}, alike)
	b.inCommands(ctx, lineStep{b, &b.s.limits.inLine, b.sendNumbered}, together)
	b.lineSingly(ctx, single)
}

// inCommands takes entries by commands that a slow server still does in their time.
func (b *batch) inCommands(ctx context.Context, step lineStep, entries []int) {
	for len(entries) > 0 {
		n := min(len(entries), step.limit.Most())
		some := entries[:n]
		if err := split.Run(ctx, step, some, step.limit, split.Parts); err != nil {
			for _, i := range b.undecided(some) { // it may still arrive
				b.s.unsure.add(b.reqs[i].ID, unsureTime)
			}
			b.Fail(ctx, some, err)
		}
		entries = entries[n:]
	}
}

// lineStep is how several requests are taken that stand, or are to. A command that a document has stopped is sent again whole: which
// entries it has refreshed nobody can read.
type lineStep struct {
	*batch
	limit *command.Limit
	send  func(ctx context.Context, entries []int, wait time.Duration) error
}

func (s lineStep) Send(ctx context.Context, entries []int, wait time.Duration) error {
	if err := s.send(ctx, entries, wait); err != nil {
		return err
	}
	s.answerInLine(ctx, s.undecided(entries))
	s.lineSingly(ctx, s.undecided(entries))
	return nil
}

func (s lineStep) Resend(ctx context.Context, entries []int, wait time.Duration) error {
	return s.Send(ctx, entries, wait) // of a command that was stopped all entries are open
}

func (s lineStep) Progress(_ context.Context, _ error, entries []int) (single, rest []int, known bool) {
	return nil, s.undecided(entries), true
}

func (s lineStep) Single(ctx context.Context, i int, again bool) (blocked bool) {
	s.sent[i] = s.sent[i] || again
	r := s.s.acquireOne(ctx, s.reqs[i])
	s.decide(ctx, i, r)
	return r.Status == driver.Unknown && command.Blocked(r.Err)
}

// lineSingly takes entries one by one.
func (b *batch) lineSingly(ctx context.Context, entries []int) {
	split.InParallel(len(entries), split.Parts, func(n int) {
		b.decide(ctx, entries[n], b.s.acquireOne(ctx, b.reqs[entries[n]]))
	})
}

func (b *batch) sendNumbered(ctx context.Context, entries []int, _ time.Duration) error {
	return b.numbered(ctx, entries, true, inLine)
}

// sendAlike takes entries that are alike by one updateMany. It has no number: see acquireMany.
func (b *batch) sendAlike(ctx context.Context, entries []int, wait time.Duration) error {
	s, start := b.s, time.Now()
	err := s.cmd.WriteOnce(ctx, document.TakeManyExclusive(s.leases, pick(b.reqs, entries), s.cmd.Standalone()), wait)
	switch stop := stopOf(err); {
	case err == nil:
		s.limits.alike.Observe(len(entries), time.Since(start))
		return nil
	case command.MajorityLate(err):
		return b.numbered(ctx, entries, true, inLine)
	case split.Stopped(stop):
		for _, i := range entries {
			b.sent[i] = true
		}
		return stop
	}
	return err
}

// answerInLine reads what became of the entries and decides those that are clear. A local read is enough, as in answer.
func (b *batch) answerInLine(ctx context.Context, entries []int) {
	if len(entries) == 0 {
		return
	}
	keys := keysAt(b.reqs, entries)
	asked := make([]driver.Entry, len(entries))
	for n, i := range entries {
		asked[n] = document.EntryOf(b.reqs[i])
	}
	states, err := b.s.statesWith(ctx, document.LineFields(asked), keys, nil)
	if err != nil {
		b.Fail(ctx, entries, b.sentBefore(b.s.cmd.Fail(ctx, "acquire "+names(keys), err)))
		return
	}
	var taken []int
	for _, i := range entries {
		switch r, there := states[b.reqs[i].Key]; {
		case there && b.s.short(b.reqs[i].Mode, r.Key) && r.Short(b.reqs[i]):
			b.s.shares.add(r.Key, crowdTime)
		case there && r.Has(b.reqs[i]) && needsLine(b.reqs[i], r): // it was passed the key since
		case there && r.Untold(b.reqs[i]):
			b.results[i], b.done[i] = r.WithLeft(r.GrantedTo(b.reqs[i]), b.reqs[i], time.Since(b.began)), true
		case there && r.Has(b.reqs[i]):
			taken = append(taken, i)
		case there && r.Refuses():
			b.results[i], b.done[i] = r.WithPlace(r.RefusedTo(b.reqs[i])), true
		}
	}
	b.finishAll(ctx, taken, states)
}

// finishAll answers for entries whose documents have their holds.
func (b *batch) finishAll(ctx context.Context, taken []int, states map[string]document.State) {
	found := make([]*document.State, len(taken))
	for n, i := range taken {
		r := states[b.reqs[i].Key]
		found[n] = &r
	}
	if err := b.s.fence.Find(ctx, found...); err != nil {
		b.Fail(ctx, taken, b.sentBefore(b.s.cmd.Fail(ctx, "acquire "+names(keysAt(b.reqs, taken)), err)))
		return
	}
	split.InParallel(len(taken), split.Parts, func(n int) {
		i := taken[n]
		g := b.s.finishGrant(ctx, b.reqs[i], *found[n], fenceWait)
		b.results[i], b.done[i] = found[n].WithLeft(g, b.reqs[i], time.Since(b.began)), true
	})
}

// rest decides entries that are not clear yet: one by one, but those with a line together.
func (b *batch) rest(ctx context.Context, entries []int) {
	var lined, single []int
	for _, i := range entries {
		if b.s.crowd.has(b.reqs[i].Key) {
			lined = append(lined, i)
		} else {
			single = append(single, i)
		}
	}
	steps := []func(){func() { b.singly(ctx, single) }, func() { b.inLine(ctx, lined) }}
	split.InParallel(len(steps), len(steps), func(i int) { steps[i]() })
}

// backToLine answers for a request that stands and is pinned by guarded transactions: it gives the key back and stands
// before all others.
func (s *Store) backToLine(ctx context.Context, q driver.Request) driver.Result {
	for tries := 0; ; tries++ {
		reply, err := s.cmd.Write(ctx, nil, document.BackToLine(s.leases, q), undoWait)
		switch {
		case err == nil && command.Matched(reply.Raw) > 0:
			doc, _ := reply.Lookup("value").DocumentOK()
			return document.Parse(doc).WithPlace(driver.Result{Status: driver.Pinned})
		case err == nil:
			return driver.Result{Status: driver.Pinned}
		case tries == 3 || !command.Conflicted(err):
			failed := s.cmd.Fail(ctx, fmt.Sprintf("acquire %q", q.Key), err)
			return unknown(&driver.Error{Lasting: failed.Lasting, Silent: failed.Silent, Err: failed.Err})
		}
	}
}
