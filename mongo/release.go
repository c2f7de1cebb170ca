package mongolock

import (
	"context"
	"fmt"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/split"
	"github.com/rowlock/rowlock/mongo/internal/command"
	"github.com/rowlock/rowlock/mongo/internal/document"
)

// Release is called by the Client that rowlock.New makes. It implements driver.Store: one command for all holds, and one for each
// undo whose attempt was not answered (see undo.go). A release does not wait for
// the guarded transactions of the lease that are still open; the next grant does.
func (s *Store) Release(ctx context.Context, holds []driver.Hold) ([]driver.Result, error) {
	if err := s.enter(ctx, "release", len(holds)); err != nil {
		return nil, err
	}
	ctx = command.ForReleases(ctx)
	results := make([]driver.Result, len(holds))
	var plain, undos, unordered, lined []int
	for i, h := range holds {
		switch {
		case h.Next != nil || s.crowd.has(h.Key) && s.sessions.FindUnanswered(h.ID) == nil:
			lined = append(lined, i)
		case !h.Undo:
			plain = append(plain, i)
		case s.sessions.FindUnanswered(h.ID) != nil:
			undos = append(undos, i)
		default:
			unordered = append(unordered, i)
		}
	}
	// One command for each kind, all at once, so that none waits for another.
	commands := []func(){}
	if len(lined) > 0 {
		commands = append(commands, func() { s.endManyInLine(ctx, holds, lined, results) })
	}
	for _, group := range [][]int{plain, unordered} {
		if len(group) > 0 {
			commands = append(commands, func() { s.endMany(ctx, holds, group, results) })
		}
	}
	for _, i := range undos {
		commands = append(commands, func() { results[i] = s.undo(ctx, holds[i]) })
	}
	if readers := guardedReaders(holds); len(readers) > 0 {
		commands = append(commands, func() { s.fence.Remove(ctx, readers...) })
	}
	s.txSessions.Drop(holds...)
	if ids := s.txSessions.TakeEnded(); ids != nil {
		commands = append(commands, func() { s.endSessions(ctx, ids) })
	}
	split.InParallel(len(commands), split.Parts, func(i int) { commands[i]() })
	if len(results) == 1 && results[0].Status == driver.Unknown {
		return nil, results[0].Err
	}
	return results, nil
}

// endMany ends the holds of group, which are of one kind.
func (s *Store) endMany(ctx context.Context, holds []driver.Hold, group []int, results []driver.Result) {
	if len(group) == 1 {
		results[group[0]] = s.end(ctx, holds[group[0]], blockWait)
		return
	}
	some := pick(holds, group)
	e := &ending{s: s, holds: some, results: make([]driver.Result, len(some))}
	entries := split.Order(len(some), func(i int) string { return some[i].Key })
	if err := split.Run(ctx, e, entries, &s.limits.release, split.Parts); err != nil {
		e.Fail(ctx, entries, err)
	}
	for n, i := range group {
		results[i] = e.results[n]
	}
}

// ending is a release of several holds of one kind.
type ending struct {
	s       *Store
	holds   []driver.Hold
	results []driver.Result
}

func (e *ending) Send(ctx context.Context, entries []int, wait time.Duration) error {
	s, holds, start := e.s, pick(e.holds, entries), time.Now()
	reply, err := s.cmd.Write(ctx, nil, document.EndMany(s.leases, holds), wait)
	if err != nil {
		return stopOf(err)
	}
	s.limits.release.Observe(len(holds), time.Since(start))
	var lined []int
	if reply.Matched() >= int64(len(holds)) {
		for _, i := range entries {
			e.results[i] = s.ended(driver.Released, e.holds[i])
		}
	} else {
		states, err := s.statesOf(ctx, holds, command.OperationTime(reply.Raw))
		if err != nil {
			return err
		}
		for _, i := range entries {
			r, there := states[e.holds[i].Key]
			if e.results[i] = s.ended(document.Fate(r, there, e.holds[i]), e.holds[i]); r.Lined {
				s.crowded(r.Key)
				lined = append(lined, i)
			}
		}
	}
	if len(lined) > 0 {
		s.endManyInLine(ctx, e.holds, lined, e.results)
		e.notLost(entries) // the command has ended some, and others may have been passed those keys
	}
	if reply.Lost {
		e.notLost(entries)
	}
	return nil
}

// Resend follows a command that was stopped.
func (e *ending) Resend(ctx context.Context, entries []int, wait time.Duration) error {
	err := e.Send(ctx, entries, wait)
	if err == nil {
		e.notLost(entries)
	}
	return err
}

// notLost corrects answers after a command that was stopped: it may have ended some
// holds, and others have taken those keys since. What is not found any more was not
// lost for that.
func (e *ending) notLost(entries []int) {
	for _, i := range entries {
		if st := e.results[i].Status; st == driver.Taken || st == driver.Removed {
			e.results[i] = driver.Result{Status: driver.Released}
		}
	}
}

func (e *ending) Progress(ctx context.Context, stop error, entries []int) (single, rest []int, known bool) {
	states, known := e.s.afterStop(ctx, stop, pick(e.holds, entries))
	if !known {
		return nil, nil, false
	}
	for _, i := range entries {
		doc, there := states[e.holds[i].Key]
		switch st := document.Fate(doc, there, e.holds[i]); {
		case st != driver.Alive:
			e.results[i] = e.s.ended(st, e.holds[i])
			e.notLost([]int{i})
		case single == nil:
			single = []int{i}
		default:
			rest = append(rest, i)
		}
	}
	return single, rest, true
}

func (e *ending) Single(ctx context.Context, entry int, _ bool) bool {
	e.results[entry] = e.s.end(ctx, e.holds[entry], partWait)
	e.notLost([]int{entry})
	return e.results[entry].Status == driver.Unknown && command.Blocked(e.results[entry].Err)
}

func (e *ending) Fail(ctx context.Context, entries []int, err error) {
	failed := e.s.cmd.Fail(ctx, "release "+names(keysOf(pick(e.holds, entries))), err)
	for _, i := range entries {
		e.results[i] = unknown(failed)
	}
}

// end ends one hold.
func (s *Store) end(ctx context.Context, h driver.Hold, wait time.Duration) driver.Result {
	if h.Next != nil || s.crowd.has(h.Key) {
		return s.endInLine(ctx, h, wait)
	}
	what := fmt.Sprintf("release %q", h.Key)
	for tries := 0; ; tries++ {
		reply, err := s.cmd.Write(ctx, nil, document.EndOne(s.leases, h), wait)
		switch {
		case err == nil && reply.Matched() > 0:
			return s.ended(driver.Released, h)
		case err == nil:
			fates, lined, err := s.fates(ctx, reply.Raw, []driver.Hold{h}, document.Fate)
			if err != nil {
				return unknown(s.cmd.Fail(ctx, what, err))
			}
			if lined {
				s.crowded(h.Key)
				return s.endInLine(ctx, h, wait)
			}
			if reply.Lost && (fates[0] == driver.Taken || fates[0] == driver.Removed) {
				return driver.Result{Status: driver.Released} // it may have been there the first time
			}
			return s.ended(fates[0], h)
		case command.Conflicted(err) && tries < 3:
			continue
		}
		return unknown(s.cmd.Fail(ctx, what, err))
	}
}

// ended turns the fate of a hold into the answer to its release. A hold that is
// there after all came later than the release: an attempt that was still on its
// way. An undo that ended the hold is final: without a number an ID goes out once,
// and for one that was sent with a number a session is remembered (undo.go), except
// on a standalone server.
func (s *Store) ended(fate driver.Status, h driver.Hold) driver.Result {
	if fate == driver.Alive {
		return unknown(&driver.Error{Err: fmt.Errorf("mongo: release %q: its acquire arrived after the release", h.Key)})
	}
	return driver.Result{Status: fate, Final: h.Undo && fate == driver.Released && !s.cmd.Standalone() && !s.unsure.has(h.ID)}
}
