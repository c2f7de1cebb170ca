package check

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/rowlock/rowlock/dev/verify/history"
	"github.com/rowlock/rowlock/internal/testserver"
)

// simulateModes makes the history of a key as a right lock would that readers, slots and
// exclusive holders take in turns: phases with some readers and some slots, or one
// exclusive hold.
func simulateModes(seed uint64, key string, phases int) []history.Event {
	s := &simulation{Rand: rand.New(rand.NewPCG(seed, 3)), key: key, ids: make(map[string]int64), now: time.Second, token: 1 << 20}
	var rows []history.Event
	written := int64(0)
	numbers := make(map[int]int64)
	for range phases {
		s.token += 4096
		begin, end := s.now, s.now
		if s.IntN(3) == 0 {
			a, until := s.oneHold(begin, begin, history.Event{Token: s.token})
			written++
			s.commitOf(a, until, written)
			rows = append(rows, history.Event{Kind: history.Ledger, Value: written, Token: a.Token})
			s.now = s.releaseOf(a, until)
			continue
		}
		for range 1 + s.IntN(6) {
			a, until := s.oneHold(begin, begin+s.upTo(2*time.Millisecond), history.Event{Mode: history.Shared, Token: s.token})
			run := s.commitOf(a, until, written)
			rows = append(rows, history.Event{Kind: history.Seen, Value: written, Token: s.token, Run: run})
			end = max(end, s.releaseOf(a, until))
		}
		for slot := range s.IntN(3) {
			before := begin
			for turn := range int64(s.IntN(3)) {
				a, until := s.oneHold(begin, before, history.Event{Mode: history.Slot, Slot: slot, Slots: slot + 1 + s.IntN(2), Token: s.token + 1024*(turn+1)})
				numbers[slot]++
				s.commitOf(a, until, numbers[slot])
				rows = append(rows, history.Event{Kind: history.Ledger, Mode: history.Slot, Slot: slot, Value: numbers[slot], Token: a.Token})
				before = s.releaseOf(a, until)
			}
			end = max(end, before)
		}
		s.token += 4096
		s.now = end
	}
	for i, e := range rows {
		e.ID, e.Client, e.Space, e.Key = int64(-1-i), s.key, "version", s.key
		s.events = append(s.events, e)
	}
	return s.events
}

// oneHold is an acquire that was asked for after since and granted after free, and looks.
func (s *simulation) oneHold(since, free time.Duration, e history.Event) (a history.Event, until time.Duration) {
	e.Kind, e.Result = history.Acquire, history.OK
	e.Begin = since - s.upTo(2*time.Millisecond)
	e.End = max(since, free) + s.upTo(time.Millisecond)
	a = s.add(fmt.Sprintf("%s-p%d", s.key, s.IntN(3)), e)
	until = a.End
	for range s.IntN(3) {
		until += s.upTo(time.Millisecond)
		s.add(a.Client, history.Event{Kind: history.Look, Result: history.OK, Lease: a.ID, Begin: until, End: until, Token: a.Token})
	}
	return a, until
}

func (s *simulation) commitOf(a history.Event, at time.Duration, value int64) (run string) {
	e := history.Event{Kind: history.Commit, Result: history.OK, Lease: a.ID, Mode: a.Mode, Slot: a.Slot, Token: a.Token, Begin: at, Sent: at, End: at + 1, Value: value}
	if a.Mode == history.Shared {
		e.Run = fmt.Sprintf("%s.%d", a.Client, s.ids[a.Client]+1)
	}
	s.add(a.Client, e)
	return e.Run
}

func (s *simulation) releaseOf(a history.Event, at time.Duration) time.Duration {
	r := s.add(a.Client, history.Event{Kind: history.Release, Result: history.OK, Lease: a.ID, Token: a.Token, Begin: at + 1, End: at + 1 + s.upTo(time.Millisecond)})
	return r.End
}

// What a right lock with readers and slots did is accepted.
func TestSimulatedModes(t *testing.T) {
	t.Parallel()
	for seed := range seeds(40) {
		for _, v := range Run(simulateModes(seed, "k", 60), simulated) {
			t.Errorf("seed %d: %v", seed, v)
		}
	}
}

// One in which one thing is changed is rejected, by the right checker.
func TestSimulatedModesAndBroken(t *testing.T) {
	t.Parallel()
	is := func(kind history.Kind, mode history.Mode) func(history.Event) bool {
		return func(e history.Event) bool { return e.Kind == kind && e.Mode == mode }
	}
	later := func(e *history.Event) { e.Begin += time.Second; e.End += time.Second }
	for _, c := range []struct {
		checkers []string
		pick     func(history.Event) bool
		change   func(*history.Event)
	}{
		{[]string{"tokens"}, is(history.Acquire, history.Shared), func(e *history.Event) { e.Token -= 16384 }},
		{[]string{"tokens"}, is(history.Acquire, history.Slot), func(e *history.Event) { e.Token -= 16384 }},
		{[]string{"tokens"}, is(history.Acquire, ""), func(e *history.Event) { e.Token -= 16384 }},
		{[]string{"slots"}, func(e history.Event) bool { return e.Kind == history.Acquire && e.Slot > 0 }, func(e *history.Event) { e.Slots = e.Slot }},
		{[]string{"guards"}, is(history.Seen, ""), func(e *history.Event) { e.Value++ }},
		{[]string{"guards"}, is(history.Commit, history.Shared), func(e *history.Event) { e.Result = history.Lost }},
		{[]string{"stale", "lock"}, is(history.Commit, history.Shared), func(e *history.Event) { e.Sent += time.Second; e.End += time.Second }},
		{[]string{"stale"}, is(history.Commit, history.Slot), func(e *history.Event) { e.Sent += time.Second; e.End += time.Second }},
		{[]string{"ledger"}, is(history.Ledger, history.Slot), func(e *history.Event) { e.Value++ }},
		{[]string{"lock", "phases"}, func(e history.Event) bool { return e.Kind == history.Release && e.Token%8192 != 1024 }, later},
	} {
		for seed := range seeds(10) {
			events := simulateModes(seed, "k", 60)
			var candidates []int
			for i, e := range events {
				if i > 30 && e.Begin < 1100*time.Millisecond && c.pick(e) {
					candidates = append(candidates, i)
				}
			}
			if len(candidates) == 0 {
				continue
			}
			i := candidates[int(seed)%len(candidates)]
			old := events[i]
			change(events, i, c.change)
			found := Run(events, simulated)
			if !slices.ContainsFunc(found, func(v Violation) bool { return slices.Contains(c.checkers, v.Checker) }) {
				t.Errorf("%v, seed %d: changed %+v, found %v", c.checkers, seed, old, found)
			}
		}
	}
}

// A key with many readers is judged in a time that can be waited for.
func TestSpeedOfModes(t *testing.T) {
	testserver.Long(t)
	events := simulateModes(1, "k", 3000)
	start := time.Now()
	if found := Run(events, simulated); len(found) > 0 {
		t.Errorf("%d violations, the first: %v", len(found), found[0])
	}
	took := time.Since(start)
	t.Logf("%d events judged in %v", len(events), took)
	if took > time.Minute {
		t.Errorf("it took %v", took)
	}
}
