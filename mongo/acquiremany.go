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

// acquireMany takes several keys: one updateMany over the documents that exist,
// a find that shows what became of them, and one command of upserts for the keys
// that have no document yet. If a foreign transaction blocks a document, the
// others go on without it (package split), and what is undecided at the end (a key that was
// freed between two commands) singly: every command before was answered, so
// repeating a hold ID finds its own hold.
//
// An updateMany has no number in a session. If it stays unanswered, an undo that
// finds nothing is not final and the engine repeats it. One that ends the hold is,
// because the updateMany goes out once: whatever follows it has a number. A second
// one goes out only for keys that the first one, which was answered, had not taken:
// then it is the second that took what such an undo ends.
func (s *Store) acquireMany(ctx context.Context, reqs []driver.Request) ([]driver.Result, error) {
	b := &batch{s: s, reqs: reqs, results: make([]driver.Result, len(reqs)), done: make([]bool, len(reqs)), sent: make([]bool, len(reqs)), began: time.Now()}
	var ordinary, apart, pinned, modes, lined, standing []int
	for _, i := range split.Order(len(reqs), func(i int) string { return reqs[i].Key }) {
		switch q := reqs[i]; {
		case q.Stand && (q.Pinned || q.Apart):
			standing = append(standing, i)
		case s.crowd.has(q.Key) && !q.Pinned && !q.Apart:
			lined = append(lined, i)
		case q.Mode != driver.Exclusive:
			modes = append(modes, i)
		case q.Apart: // it may be pinned, and keep the others waiting
			apart = append(apart, i)
		case q.Pinned:
			pinned = append(pinned, i)
		default:
			ordinary = append(ordinary, i)
		}
	}
	if len(apart)+len(pinned)+len(modes)+len(lined)+len(standing) == 0 {
		if err := b.run(ctx, ordinary); err != nil {
			return nil, err
		}
		return b.results, nil
	}
	run := func(ctx context.Context, entries []int) {
		if err := b.run(ctx, entries); err != nil {
			b.Fail(ctx, entries, err)
		}
	}
	steps := []func(){
		func() { run(command.ForPinned(ctx), apart) },
		func() { run(ctx, ordinary) },
		func() { b.inPhases(ctx, modes) },
		func() { b.inLine(ctx, lined) },
		func() { b.singly(command.ForPinned(ctx), standing) },
	}
	if len(pinned) > 0 {
		steps = append(steps, func() {
			b.singly(command.ForPinned(ctx), b.s.stillPinned(command.ForPinned(ctx), reqs, pinned, b.results))
		})
	}
	split.InParallel(len(steps), len(steps), func(i int) { steps[i]() })
	return b.results, nil
}

// batch is one acquire of several keys.
type batch struct {
	s       *Store
	reqs    []driver.Request
	results []driver.Result
	done    []bool
	sent    []bool // a command that was stopped may have taken it
	began   time.Time
}

// run decides the entries, or returns an error that means unknown for all.
func (b *batch) run(ctx context.Context, entries []int) error {
	if len(entries) < 2 {
		b.singly(ctx, entries)
		return nil
	}
	if err := split.Run(ctx, b, entries, &b.s.limits.acquire, split.Parts); err != nil {
		for _, i := range entries { // what may still arrive has no number
			if b.reqs[i].Stand {
				b.s.unsure.add(b.reqs[i].ID, unsureTime)
			}
		}
		failed := b.s.cmd.Fail(ctx, fmt.Sprintf("acquire %d keys", len(entries)), err)
		if command.PartlyDone(err) {
			return b.sentBefore(failed)
		}
		return failed
	}
	return nil
}

// Send takes the entries by an updateMany.
func (b *batch) Send(ctx context.Context, entries []int, wait time.Duration) error {
	start := time.Now()
	err := b.s.cmd.WriteOnce(ctx, document.TakeMany(b.s.leases, pick(b.reqs, entries), b.s.cmd.Standalone()), wait)
	switch {
	case command.MajorityLate(err):
		return b.Resend(ctx, entries, wait)
	case err != nil:
		return stopOf(err) // some may be taken, but the majority has not acknowledged it
	}
	b.s.limits.acquire.Observe(len(entries), time.Since(start))
	b.finish(ctx, entries)
	return nil
}

// Resend takes entries that an updateMany may have taken: each as a statement of its
// own in a session, so that the undo of one that stays unanswered is final.
func (b *batch) Resend(ctx context.Context, entries []int, _ time.Duration) error {
	if err := b.numbered(ctx, entries, false, alone); err != nil {
		return err
	}
	b.finish(ctx, b.undecided(entries))
	return nil
}

// Progress decides what an updateMany took before it was stopped, and what is held. A key
// that has no document stopped nothing. One that is taken but for its fence is sent
// again with a number, because it was sent before.
func (b *batch) Progress(ctx context.Context, stop error, entries []int) (single, rest []int, known bool) {
	states, known := b.s.afterStop(ctx, stop, b.holdsAt(entries))
	if !known {
		return nil, nil, false
	}
	_, fenced := b.assign(entries, states)
	for _, i := range b.undecided(entries) {
		switch r, there := states[b.reqs[i].Key]; {
		case r.Hold == b.reqs[i].ID:
		case there && single == nil:
			single = []int{i}
		default:
			rest = append(rest, i)
		}
	}
	return append(single, fenced...), rest, true
}

// finish decides entries of which those that have a document were tried.
func (b *batch) finish(ctx context.Context, entries []int) {
	if len(entries) == 0 {
		return
	}
	missing, err := b.answer(ctx, entries)
	if err == nil && len(missing) > 1 {
		stop := b.numbered(ctx, missing, true, alone)
		if stop == nil && len(b.undecided(missing)) > 0 {
			_, err = b.answer(ctx, missing)
		}
	}
	if err != nil {
		b.Fail(ctx, entries, b.sentBefore(b.s.cmd.Fail(ctx, fmt.Sprintf("acquire %d keys", len(entries)), err)))
		return
	}
	b.rest(ctx, b.undecided(entries))
}

// Fail gives the entries without an answer an error for one.
func (b *batch) Fail(ctx context.Context, entries []int, err error) {
	failed := b.s.cmd.Fail(ctx, fmt.Sprintf("acquire %d keys", len(entries)), err)
	for _, i := range b.undecided(entries) {
		b.results[i], b.done[i] = unknown(failed), true
	}
}

// sentBefore takes NotApplied out of an error of a later step: the first one was applied.
func (b *batch) sentBefore(e *driver.Error) error {
	return &driver.Error{Lasting: e.Lasting, Silent: e.Silent, Err: e.Err}
}

// undecided lists the entries without an answer.
func (b *batch) undecided(entries []int) []int {
	var open []int
	for _, i := range entries {
		if !b.done[i] {
			open = append(open, i)
		}
	}
	return open
}

// answer reads what became of the entries and decides those that are clear. A
// local read is enough: it cannot invent my hold, and a refusal that a deposed
// primary makes up costs no more than another probe.
func (b *batch) answer(ctx context.Context, entries []int) (missing []int, err error) {
	states, err := b.s.states(ctx, keysAt(b.reqs, entries), nil)
	if err != nil {
		return nil, err
	}
	if err := b.findFences(ctx, entries, states); err != nil {
		return nil, err
	}
	missing, fenced := b.assign(entries, states)
	if len(fenced) > 0 {
		b.raiseAll(ctx, fenced, states)
	}
	return missing, nil
}

// findFences looks for those of the keys that were taken.
func (b *batch) findFences(ctx context.Context, entries []int, states map[string]document.State) error {
	var taken []*document.State
	for _, i := range entries {
		if r, ok := states[b.reqs[i].Key]; ok && r.Hold == b.reqs[i].ID {
			taken = append(taken, &r)
		}
	}
	if err := b.s.fence.Find(ctx, taken...); err != nil {
		return err
	}
	for _, r := range taken {
		states[r.Key] = *r
	}
	return nil
}

// assign decides the entries whose documents leave no doubt. It lists those that have
// none, and those that are taken but for their fence, or for a look for one.
func (b *batch) assign(entries []int, states map[string]document.State) (missing, fenced []int) {
	for _, i := range entries {
		r, ok := states[b.reqs[i].Key]
		switch {
		case !ok:
			missing = append(missing, i)
		case needsLine(b.reqs[i], r):
			b.s.crowded(r.Key)
		case r.Hold == b.reqs[i].ID && (r.Fenced || r.Fresh) && r.Corrupt == "":
			fenced = append(fenced, i)
		case r.Hold == b.reqs[i].ID:
			b.results[i], b.done[i] = r.WithLeft(r.Granted(), b.reqs[i], time.Since(b.began)), true
		case r.Left > 0:
			b.results[i], b.done[i] = r.RefusedTo(b.reqs[i]), true
		}
	}
	return missing, fenced
}

// holdsAt lists the holds that entries ask for.
func (b *batch) holdsAt(entries []int) []driver.Hold {
	holds := make([]driver.Hold, len(entries))
	for n, i := range entries {
		holds[n] = driver.Hold{Key: b.reqs[i].Key, ID: b.reqs[i].ID, Mode: b.reqs[i].Mode}
	}
	return holds
}

// numbered takes keys by one command in a session of its own, with a statement for each
// key: it creates the documents of keys that have none, or passes them over. It
// returns a stop if a document stopped it; then some are taken, but not
// acknowledged. Where it stays unanswered, the entries are unknown and their session
// waits for the undo.
func (b *batch) numbered(ctx context.Context, entries []int, create bool, form form) error {
	s, start := b.s, time.Now()
	limit, acquiring := &s.limits.numbered, document.Acquiring
	if form == inLine {
		limit, acquiring = &s.limits.inLine, s.acquiringInLine
	}
	what, wait := fmt.Sprintf("acquire %d keys again", len(entries)), limit.Of(len(entries))
	if create {
		what, wait = fmt.Sprintf("acquire %d new keys", len(entries)), 2*wait
	}
	sess, err := s.sessions.Get()
	if err != nil {
		b.Fail(ctx, entries, b.sentBefore(s.cmd.Fail(ctx, what, err)))
		return nil
	}
	updates := make(bson.A, len(entries))
	ids := make([]driver.HoldID, len(entries))
	for n, i := range entries {
		q := b.reqs[i]
		updates[n] = bson.D{{Key: "q", Value: document.ByKey(q.Key)}, {Key: "u", Value: acquiring(q, s.cmd.Standalone())}, {Key: "upsert", Value: create}}
		ids[n] = q.ID
	}
	_, err = s.cmd.Write(ctx, sess, bson.D{{Key: "update", Value: s.leases}, {Key: "updates", Value: updates}, {Key: "ordered", Value: false}}, wait)
	if err == nil {
		limit.Observe(len(entries), time.Since(start))
	}
	if err == nil && sess.MayArrive { // any document that it did not write may be written yet
		_, err = s.overtake(ctx, sess)
	}
	switch {
	case err == nil:
		s.sessions.Put(sess)
	case split.Stopped(stopOf(err)):
		s.sessions.Put(sess)
		for _, i := range entries {
			b.sent[i] = true
		}
		return stopOf(err)
	default:
		s.addUnanswered(sess, ids...)
		b.Fail(ctx, entries, b.sentBefore(s.cmd.Fail(ctx, what, err)))
	}
	return nil
}

func (b *batch) singly(ctx context.Context, entries []int) {
	split.InParallel(len(entries), split.Parts, func(n int) { b.Single(ctx, entries[n], false) })
}

// Single takes one key.
func (b *batch) Single(ctx context.Context, i int, again bool) bool {
	q := b.reqs[i]
	r := b.s.acquire(ctx, q, partWait)
	if q.Stand && r.Status == driver.Unknown && command.Blocked(r.Err) {
		r = b.s.placeless(ctx, q, b.s.acquire(ctx, q, blockWait))
	}
	b.sent[i] = b.sent[i] || again
	b.decide(ctx, i, r)
	return r.Status == driver.Unknown && command.Blocked(r.Err)
}

// decide stores the answer to a command for one key. An error of it says nothing about a command before.
func (b *batch) decide(ctx context.Context, i int, r driver.Result) {
	if b.sent[i] && r.Status == driver.Unknown {
		r.Err = b.sentBefore(b.s.cmd.Fail(ctx, "acquire", r.Err))
	}
	b.results[i], b.done[i] = r, true
}
