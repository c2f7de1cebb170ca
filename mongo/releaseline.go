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

// endInLine ends one hold, or takes its request out of the line, in the form that knows of lines.
func (s *Store) endInLine(ctx context.Context, h driver.Hold, wait time.Duration) driver.Result {
	what := fmt.Sprintf("release %q", h.Key)
	short, lost := s.short(h.Mode, h.Key) && !h.Undo, s.stopped.has(h.ID)
	for tries := 0; ; tries++ {
		cmd := document.EndInLine
		if short {
			cmd = document.EndExclusive
		}
		reply, err := s.cmd.Write(ctx, nil, cmd(s.leases, h, s.cmd.Standalone()), wait)
		switch {
		case err == nil && reply.Matched() > 0:
			raw := reply.Raw
			if command.Matched(raw) == 0 {
				raw = reply.Earlier
			}
			doc, _ := raw.Lookup("value").DocumentOK()
			return document.Parse(doc).WithPlace(s.ended(driver.Released, h))
		case err == nil && short:
			short, lost = false, lost || reply.Lost
			continue
		case err == nil:
			fates, _, err := s.fates(ctx, reply.Raw, []driver.Hold{h}, document.Fate)
			if err != nil {
				return unknown(s.cmd.Fail(ctx, what, err))
			}
			if (lost || reply.Lost) && (fates[0] == driver.Taken || fates[0] == driver.Removed) {
				return driver.Result{Status: driver.Released} // it may have been there the first time
			}
			return s.ended(fates[0], h)
		case command.Conflicted(err) && tries < 3:
			continue
		}
		return unknown(s.cmd.Fail(ctx, what, err))
	}
}

// endManyInLine ends the holds of group by one command, and a find where one of them has a Next or was not there. What
// stops the command is sent singly.
func (s *Store) endManyInLine(ctx context.Context, holds []driver.Hold, group []int, results []driver.Result) {
	single := func(group []int) {
		split.InParallel(len(group), split.Parts, func(n int) { results[group[n]] = s.endInLine(ctx, holds[group[n]], blockWait) })
	}
	if len(group) == 1 {
		single(group)
		return
	}
	some := pick(holds, group)
	start, wait := time.Now(), 2*s.limits.inLine.Of(len(some))
	reply, err := s.cmd.Write(ctx, nil, document.EndManyInLine(s.leases, some, s.short, s.cmd.Standalone()), wait)
	if err == nil {
		s.limits.inLine.Observe(len(some), time.Since(start))
	}
	switch {
	case split.Stopped(stopOf(err)):
		for _, h := range some {
			s.stopped.add(h.ID, stoppedTime)
		}
		single(group)
		s.findNexts(ctx, some, func(n int, r document.State) {
			if i := group[n]; results[i].Status == driver.Released {
				results[i] = r.WithPlace(results[i])
			}
		})
		return
	case err != nil:
		for _, i := range group {
			results[i] = unknown(s.cmd.Fail(ctx, "release "+names(keysOf(some)), err))
		}
		return
	}
	for n, h := range some {
		results[group[n]] = s.ended(driver.Released, h)
	}
	if reply.Matched() < int64(len(some)) {
		s.findEnded(ctx, reply.Raw, some, func(n int, r driver.Result) { results[group[n]] = r })
	}
	s.findNexts(ctx, some, func(n int, r document.State) { results[group[n]] = r.WithPlace(results[group[n]]) })
}

// findEnded reads what became of holds that were ended by one command, of which some were not there. It is not known
// which: those that others have now count as released.
func (s *Store) findEnded(ctx context.Context, reply bson.Raw, holds []driver.Hold, set func(n int, r driver.Result)) {
	fates, _, err := s.fates(ctx, reply, holds, document.Fate)
	for n, h := range holds {
		switch {
		case err != nil:
			set(n, unknown(s.cmd.Fail(ctx, fmt.Sprintf("release %q", h.Key), err)))
		case fates[n] == driver.Alive: // a reader or slot is in its line
			s.shares.add(h.Key, crowdTime)
			set(n, s.endInLine(ctx, h, partWait))
		case fates[n] == driver.Taken || fates[n] == driver.Released:
			set(n, driver.Result{Status: driver.Released})
		default:
			set(n, s.ended(fates[n], h))
		}
	}
}

// findNexts reads where the Nexts of released holds stand. If it cannot, a look tells.
func (s *Store) findNexts(ctx context.Context, holds []driver.Hold, set func(n int, r document.State)) {
	var asked []driver.Entry
	var keys []string
	for _, h := range holds {
		if h.Next != nil {
			asked, keys = append(asked, document.EntryOf(*h.Next)), append(keys, h.Key)
		}
	}
	if len(asked) == 0 {
		return
	}
	states, err := s.statesWith(ctx, document.LineFields(asked), keys, nil)
	if err != nil {
		return
	}
	for n, h := range holds {
		if r, there := states[h.Key]; there && h.Next != nil {
			set(n, r)
		}
	}
}
