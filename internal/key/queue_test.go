package key

import (
	"testing"
	"time"

	"github.com/rowlock/rowlock/driver"
)

const (
	me      = 7
	handoff = 50 * time.Millisecond
	now     = time.Hour
)

var (
	hinted = driver.Hint{Client: 8, Left: time.Second}
	mine   = driver.Hint{Client: me, Left: time.Second}
)

// queues is a Queue in mode in which so many callers wait.
func queues(m Mode, n int, with ...func(*Queue)) Queue {
	s := Queue{Waits: Waits{Mode: m, Waiting: n, planned: Probe, asked: now - LastProbe/2}}
	for _, f := range with {
		f(&s)
	}
	return s
}

// The parts of a Queue.
func holds(s *Queue)       { s.Held, s.since, s.tenure = s.Held+1, now-time.Minute, handoff }
func hasOne(s *Queue)      { s.Held++ } // beside others
func early(s *Queue)       { s.since, s.tenure = now-handoff/2, handoff }
func unserved(s *Queue)    { s.since, s.tenure, s.unserved = now-handoff/2, handoff/10, 1 }
func want(s *Queue)        { s.wanted = now + time.Second }
func cameBehind(s *Queue)  { s.behind = true }
func alone(s *Queue)       { s.aloneTo = now + aloneTime }
func aloneBefore(s *Queue) { s.aloneTo = now }
func tries(s *Queue)       { s.planned = Try }
func gated(s *Queue)       { s.Gated, s.asked = true, now-hintEvery/2 }
func quiet(s *Queue)       { s.asked = now - time.Minute }
func kept(s *Queue)        { s.keptUntil = now + time.Minute }
func keptFor(d time.Duration) func(*Queue) {
	return func(s *Queue) { s.keptFrom, s.keptUntil = now-d, now+time.Hour }
}

// TestQueue: every row of the table in doc.go, and of that of Line which holds for both.
func TestQueue(t *testing.T) {
	together, others, hints := Env{Together: true}, Env{Others: true}, Env{Hints: true}
	for _, tc := range []struct {
		name  string
		state Queue
		event Event
		env   Env
		mode  Mode
		want  Action
	}{
		{"a caller of a key that this client has", queues(None, 0, holds), Event{Kind: Join}, Env{}, Resting, Action{Probe, handoff, NoJitter}},
		{"a caller while the key is left to another", queues(None, 0, alone), Event{Kind: Join}, Env{}, Queued, Action{Do: Enqueue}},
		{"a reader while the key is left to another", queues(None, 0, alone), Event{Kind: Join}, together, Resting, Action{Probe, aloneTime, NoJitter}},
		{"a caller after that", queues(None, 0, aloneBefore), Event{Kind: Join}, Env{}, Trying, Action{Do: Try}},
		{"a caller", Queue{}, Event{Kind: Join}, Env{}, Trying, Action{Do: Try}},
		{"a reader while this client has a reader", queues(None, 0, hasOne), Event{Kind: Join}, together, Trying, Action{Do: Try}},
		{"a caller behind others", queues(Resting, 3), Event{Kind: Join}, Env{}, Resting, Action{}},

		{"granted, others wait", queues(Trying, 2, holds), Event{Kind: Granted}, Env{}, Resting, Action{Probe, handoff, NoJitter}},
		{"granted, other slots are wanted here", queues(Trying, 2, hasOne), Event{Kind: Granted}, together, Trying, Action{Do: Try}},
		{"granted", queues(Trying, 0, holds), Event{Kind: Granted}, Env{}, None, Action{}},
		{"refused by an exclusive hold", queues(Trying, 1), Event{Kind: Refused}, Env{}, Queued, Action{Do: Enqueue}},
		{"a reader, refused by an exclusive hold", queues(Trying, 1), Event{Kind: Refused}, together, Queued, Action{Do: Enqueue}},
		{"refused, pinned", queues(Trying, 1), Event{Kind: Refused, Pinned: true}, Env{}, Resting, Action{Probe, LastProbe, JitterThird}},
		{"refused, the store is not sure whether it is pinned", queues(Trying, 1), Event{Kind: Refused, Pinned: true, Apart: true}, Env{}, Trying, Action{Do: Try}},
		{"refused by readers", queues(Trying, 1), Event{Kind: Refused, Phase: true}, Env{}, Resting, Action{Probe, FirstProbe, JitterThird}},
		{"refused by readers for a known time", queues(Trying, 1), Event{Kind: Refused, Phase: true, Left: time.Millisecond}, Env{}, Resting, Action{Probe, time.Millisecond, NoJitter}},
		{"refused by readers, it has a gate", queues(Trying, 1), Event{Kind: Refused, Gated: true}, Env{}, Resting, Action{Probe, FirstProbe, JitterThird}},
		{"a slot behind slots", queues(Trying, 1, hasOne), Event{Kind: Refused, Phase: true}, together, Resting, Action{Probe, FirstProbe, JitterThird}},
		{"refused in the server's queue", queues(Queued, 1), Event{Kind: Refused}, Env{}, Resting, Action{Probe, FirstProbe, JitterThird}},
		{"failed", queues(Trying, 1), Event{Kind: Failed}, Env{}, Resting, Action{Try, firstRetry, JitterThird}},
		{"silent", queues(Trying, 1), Event{Kind: Failed, Silent: true, Took: time.Second}, Env{}, Resting, Action{Try, 0, JitterThird}},
		{"the first caller heard that it fails for good", queues(Trying, 1), Event{Kind: Again}, Env{}, Trying, Action{Do: Try}},
		{"no place in the server's queue", queues(Queued, 1), Event{Kind: NoPlace}, Env{}, Resting, Action{Probe, FirstProbe, JitterThird}},
		{"no place, to leave the key to another", queues(Queued, 1, alone), Event{Kind: NoPlace}, Env{}, Resting, Action{Probe, aloneTime, NoJitter}},
		{"no place, an attempt is on its way", queues(Trying, 1), Event{Kind: NoPlace}, Env{}, Trying, Action{}},

		{"due, planned as a try", queues(Resting, 1, tries), Event{Kind: Due}, Env{}, Trying, Action{Do: Try}},
		{"due", queues(Resting, 1), Event{Kind: Due}, hints, Resting, Action{Do: Probe}},
		{"due, the hint is old", queues(Resting, 1, quiet), Event{Kind: Due}, hints, Trying, Action{Do: Try}},
		{"due, the hint is old, others are renewed", queues(Resting, 1, quiet), Event{Kind: Due}, Env{}, Resting, Action{Do: Probe}},
		{"due, the hint is old, the key is kept", queues(Resting, 1, quiet, kept), Event{Kind: Due}, hints, Resting, Action{Do: Probe}},
		{"due, the hint is old, this client has the key", queues(Resting, 1, quiet, holds), Event{Kind: Due}, hints, Resting, Action{Do: Probe}},
		{"due, the hint is old, this client has a reader", queues(Resting, 1, quiet, hasOne), Event{Kind: Due}, Env{Together: true, Hints: true}, Trying, Action{Do: Try}},
		{"due, the gate is not old", queues(Resting, 1, gated), Event{Kind: Due}, Env{}, Resting, Action{Do: Probe}},
		{"due, the gate is old", queues(Resting, 1, gated, quiet), Event{Kind: Due}, Env{}, Trying, Action{Do: Try}},

		{"probed: free", queues(Resting, 1), Event{Kind: Probed, Free: true}, Env{}, Trying, Action{Do: Try}},
		{"probed: free, an attempt is on its way", queues(Trying, 1), Event{Kind: Probed, Free: true}, Env{}, Trying, Action{}},
		{"probed, and waits in the queue since", queues(Queued, 1), Event{Kind: Probed}, Env{}, Queued, Action{}},
		{"probed: this client has it", queues(Resting, 1, holds), Event{Kind: Probed}, Env{}, Resting, Action{Probe, handoff, NoJitter}},
		{"probed: kept", queues(Resting, 1), Event{Kind: Probed, Kept: true, Left: time.Hour}, Env{}, Resting, Action{Probe, firstKeptProbe, JitterThird}},
		{"probed: kept, for long", queues(Resting, 1, keptFor(time.Minute)), Event{Kind: Probed, Kept: true, Left: time.Hour}, Env{}, Resting, Action{Probe, keptProbe, JitterThird}},
		{"probed: kept, soon over", queues(Resting, 1), Event{Kind: Probed, Kept: true, Left: time.Second}, Env{}, Resting, Action{Probe, time.Second, NoJitter}},
		{"probed: readers, and no gate stands", queues(Resting, 1, quiet), Event{Kind: Probed, Phase: true, Hint: hinted}, Env{}, Trying, Action{Do: Try}},
		{"probed: readers, and no gate stands, tried just now", queues(Resting, 1), Event{Kind: Probed, Phase: true, Hint: hinted}, Env{}, Resting, Action{Probe, FirstProbe, JitterThird}},
		{"probed: readers, and a gate stands", queues(Resting, 1, quiet), Event{Kind: Probed, Phase: true, Gated: true, Hint: hinted}, Env{}, Resting, Action{Probe, FirstProbe, JitterThird}},
		{"probed: readers, and the gate is not old", queues(Resting, 1, gated, func(s *Queue) { s.asked = now - hintEvery + time.Millisecond }), Event{Kind: Probed, Phase: true, Gated: true, Hint: hinted}, Env{}, Resting, Action{Probe, FirstProbe, NoJitter}},
		{"probed: slots, for one of another slot", queues(Resting, 1, quiet), Event{Kind: Probed, Phase: true, Hint: hinted}, together, Resting, Action{Probe, FirstProbe, JitterThird}},
		{"probed: held, there is no hint", queues(Resting, 1, quiet), Event{Kind: Probed}, hints, Trying, Action{Do: Try}},
		{"probed: held, there is no hint, tried just now", queues(Resting, 1), Event{Kind: Probed}, hints, Resting, Action{Probe, FirstProbe, JitterThird}},
		{"probed: held, the own hint", queues(Resting, 1, quiet), Event{Kind: Probed, Hint: mine}, hints, Resting, Action{Probe, FirstProbe, JitterThird}},
		{"probed: held, this client has a slot", queues(Resting, 1, hasOne), Event{Kind: Probed}, together, Resting, Action{Probe, FirstProbe, JitterThird}},
		{"probe failed", queues(Resting, 1), Event{Kind: ProbeFailed}, Env{}, Resting, Action{Probe, firstRetry, JitterThird}},
		{"probe failed, and will again", queues(Resting, 1), Event{Kind: ProbeFailed, Lasting: true}, Env{}, Trying, Action{Do: Try}},
		{"probe failed, and waits in the queue since", queues(Queued, 1), Event{Kind: ProbeFailed, Lasting: true}, Env{}, Queued, Action{}},

		{"a reader of this client has ended", queues(Resting, 1), Event{Kind: Freed}, Env{}, Trying, Action{Do: Try}},
		{"a reader of this client has ended, an attempt is on its way", queues(Trying, 1), Event{Kind: Freed}, Env{}, Trying, Action{}},
		{"a reader of this client has ended, which has the key again", queues(Resting, 1, holds), Event{Kind: Freed}, Env{}, Resting, Action{}},

		{"releasing, nobody else wants it", queues(Resting, 1, holds), Event{Kind: Releasing}, Env{}, Resting, Action{Do: HandOff}},
		{"releasing, wanted", queues(Resting, 1, holds, want), Event{Kind: Releasing}, Env{}, Resting, Action{Do: Release}},
		{"releasing, another stood before", queues(Resting, 1, holds, cameBehind), Event{Kind: Releasing}, Env{}, Resting, Action{Do: Release}},
		{"releasing, readers wait here", queues(Resting, 1, holds), Event{Kind: Releasing}, others, Resting, Action{Do: Release}},
		{"releasing, wanted, within the tenure", queues(Resting, 1, holds, early, want), Event{Kind: Releasing}, Env{}, Resting, Action{Do: HandOff}},
		{"releasing, wanted, a caller has not had it yet", queues(Resting, 1, holds, unserved, want), Event{Kind: Releasing}, Env{}, Resting, Action{Do: HandOff}},
		{"releasing, nobody waits", queues(None, 0, holds), Event{Kind: Releasing}, Env{}, None, Action{Do: Release}},
		{"releasing, an attempt is on its way", queues(Trying, 1, holds), Event{Kind: Releasing}, Env{}, Trying, Action{Do: Release}},
		{"releasing a slot that another waits for", queues(Resting, 1, hasOne, want), Event{Kind: Releasing}, together, Resting, Action{Do: HandOff}},
		{"releasing a slot, an attempt is on its way", queues(Trying, 1, hasOne), Event{Kind: Releasing}, together, Trying, Action{Do: Release}},

		{"lost", queues(Resting, 1, holds, want), Event{Kind: Ended, Lost: true}, Env{}, Trying, Action{Do: Try}},
		{"released, nobody else wants it", queues(Resting, 1, holds), Event{Kind: Ended, Known: true}, Env{}, Trying, Action{Do: Try}},
		{"released, the own hint", queues(Resting, 1, holds), Event{Kind: Ended, Known: true, Hint: mine}, Env{}, Trying, Action{Do: Try}},
		{"released, wanted", queues(Resting, 1, holds), Event{Kind: Ended, Known: true, Hint: hinted}, Env{}, Queued, Action{Do: Enqueue}},
		{"released, wanted, within the tenure", queues(Resting, 1, holds, early), Event{Kind: Ended, Known: true, Hint: hinted}, Env{}, Trying, Action{Do: Try}},
		{"released, readers wait here", queues(Resting, 1, holds), Event{Kind: Ended, Known: true}, others, Queued, Action{Do: Enqueue}},
		{"released, another grant of this client has it", queues(Resting, 1, holds, holds), Event{Kind: Ended}, Env{}, Resting, Action{}},
		{"released, an attempt is on its way", queues(Trying, 1, holds), Event{Kind: Ended, Known: true, Hint: hinted}, Env{}, Trying, Action{}},
		{"a slot was released, others are held", queues(Resting, 1, hasOne, hasOne), Event{Kind: Ended}, together, Trying, Action{Do: Try}},
		{"a slot was released, another client waits", queues(Resting, 1, hasOne, want), Event{Kind: Ended}, together, Resting, Action{Probe, aloneTime, NoJitter}},
		{"a slot was lost, another client waits", queues(Resting, 1, hasOne, want), Event{Kind: Ended, Lost: true}, together, Trying, Action{Do: Try}},
		{"a slot was released, nobody waits", queues(None, 0, hasOne), Event{Kind: Ended}, together, None, Action{}},

		{"the last caller left", queues(Resting, 1), Event{Kind: Left}, Env{}, None, Action{Do: Stop}},
		{"the last caller left an attempt", queues(Trying, 1), Event{Kind: Left}, Env{}, None, Action{Do: Stop}},
		{"the last caller left the server's queue", queues(Queued, 1), Event{Kind: Left}, Env{}, None, Action{Do: Stop}},
		{"one of two left", queues(Resting, 2), Event{Kind: Left}, Env{}, Resting, Action{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, env := tc.state, tc.env
			env.Client, env.Handoff = me, handoff
			got := s.Step(tc.event, now, env)
			if got != tc.want || s.Mode != tc.mode {
				t.Errorf("%+v in mode %d, want %+v in mode %d", got, s.Mode, tc.want, tc.mode)
			}
		})
	}
}

// TestTenureOfManyPrograms: the longer the callers here had to wait for the key, the more other
// programs wait, and the shorter this client keeps it: also when it gets the key for the first time.
func TestTenureOfManyPrograms(t *testing.T) {
	env := Env{Client: me, Handoff: handoff}
	for _, tc := range []struct{ waited, tenure time.Duration }{
		{0, handoff}, {handoff, handoff / 2}, {9 * handoff, handoff / 10},
	} {
		var s Queue
		s.Step(Event{Kind: Join}, now, env)
		s.Step(Event{Kind: Began}, now+tc.waited, env)
		if s.tenure != tc.tenure {
			t.Errorf("a wait of %v: a tenure of %v, want %v", tc.waited, s.tenure, tc.tenure)
		}
	}
}

// TestQueueBehindAnother: a client that was granted the key out of the server's queue, behind
// another, releases it after its tenure, though no hint is on the key: those who wait in the
// queue renew none.
func TestQueueBehindAnother(t *testing.T) {
	env := Env{Client: me, Handoff: handoff}
	for _, behind := range []bool{false, true} {
		s := queues(Queued, 3)
		at := time.Duration(now)
		s.Step(Event{Kind: Began, Known: behind, Hint: driver.Hint{Client: driver.QueueClient, Left: driver.HintTime}}, at, env)
		s.Waiting--
		at += s.Step(Event{Kind: Granted}, at, env).After
		s.Step(Event{Kind: Due}, at, env)
		s.Step(Event{Kind: Probed}, at, env)
		want := HandOff
		if behind {
			want = Release
		}
		if a := s.Step(Event{Kind: Releasing}, at, env); a.Do != want {
			t.Errorf("behind another %v: %+v, want %v", behind, a, want)
		}
		s.Step(Event{Kind: Ended}, at, env)
		s.Step(Event{Kind: Refused, Phase: true}, at, env)
		if s.behind {
			t.Error("another has it, and is still taken to be behind")
		}
	}
}

// tried are machines of a key that so many callers wait for here, with an attempt on its way.
func tried(waiting int) map[string]Machine {
	w := Waits{Mode: Trying, Waiting: waiting}
	return map[string]Machine{"line": &Line{Waits: w}, "queue": &Queue{Waits: w}}
}

// grantedAt has the attempt granted, and says when the key is to be probed.
func grantedAt(s Machine, at time.Duration, env Env) (due time.Duration) {
	s.Step(Event{Kind: Began}, at, env)
	return at + s.Step(Event{Kind: Granted}, at, env).After
}

func handsOff(t *testing.T, name string, s Machine, at time.Duration, env Env) {
	t.Helper()
	if s.Step(Event{Kind: Releasing}, at, env).Do != HandOff {
		t.Fatalf("%s: after %v nobody else is known to want it, and it is released", name, at-now)
	}
}

func probesWhenDue(t *testing.T, name string, s Machine, at time.Duration, env Env) {
	t.Helper()
	if s.Step(Event{Kind: Due}, at, env).Do != Probe {
		t.Fatal(name, ": no probe when it is due")
	}
}

// TestShortHolds: while callers here hand the key off, each after a short time, the probes
// that ask whether another wants it are sent all the same.
func TestShortHolds(t *testing.T) {
	env := Env{Client: me, Handoff: handoff}
	for name, s := range tried(1000) {
		at := time.Duration(now)
		due := grantedAt(s, at, env)
		asked, probes := time.Duration(0), 0
		for tick := range 1000 {
			at += time.Millisecond
			if tick%9 == 8 {
				handsOff(t, name, s, at, env)
				if a := s.HandedOff(at, env); a.Do == Probe {
					due, asked = at+a.After, 0
				}
			}
			switch {
			case asked > 0 && at > asked: // answered
				asked = 0
				due = at + s.Step(Event{Kind: Probed}, at, env).After
			case asked == 0 && due <= at:
				probesWhenDue(t, name, s, at, env)
				asked = at
				probes++
			}
		}
		if probes < 10 || probes > 25 {
			t.Errorf("%s: %d probes in a second", name, probes)
		}
	}
}

// TestShortHoldsOfTwo: so it is where one caller waits at a time, and none does for a moment after each handoff.
func TestShortHoldsOfTwo(t *testing.T) {
	env := Env{Client: me, Handoff: handoff}
	for name, s := range tried(1) {
		at := time.Duration(now)
		due := grantedAt(s, at, env)
		probes := 0
		for tick := range 1000 {
			switch at += time.Millisecond; {
			case tick%9 == 8:
				handsOff(t, name, s, at, env)
				s.HandedOff(at, env)
				due = at + s.Step(Event{Kind: Join}, at, env).After
			case due <= at:
				probesWhenDue(t, name, s, at, env)
				probes++
				due = at + s.Step(Event{Kind: Probed}, at, env).After
			}
		}
		if probes < 5 || probes > 25 {
			t.Errorf("%s: %d probes in a second", name, probes)
		}
	}
}

// TestHintsOfOthersOnly: the own hint tells nothing, and one ends by itself.
func TestHintsOfOthersOnly(t *testing.T) {
	env := Env{Client: me, Handoff: handoff}
	var s Queue
	s.noteHint(Event{Kind: Probed, Hint: mine}, now, env)
	if s.contested(now, env) {
		t.Error("the own hint is taken for another's")
	}
	s.noteHint(Event{Kind: Probed, Hint: hinted}, now, env)
	if !s.contested(now, env) || s.contested(now+hinted.Left, env) || !s.Knows(now) || s.Knows(now+hinted.Left) {
		t.Error("another's hint does not count, or does not end")
	}
}

// TestSlotsAreLeftToOthers: a program whose callers take slots again at once, without a wait,
// learns now and then whether another wants one, and then leaves what it has released.
func TestSlotsAreLeftToOthers(t *testing.T) {
	env := Env{Client: 1, Handoff: 100 * time.Millisecond, Together: true}
	var s Queue
	var asked []time.Duration
	for now := time.Second; now < 2*time.Second; now += 10 * time.Millisecond {
		s.Step(Event{Kind: Began}, now, env)
		release := Event{Kind: Ended, Known: s.Asks(now, env)}
		if release.Known {
			asked = append(asked, now)
		}
		s.Step(release, now, env)
	}
	if len(asked) != 100/slotAsks {
		t.Errorf("%d releases of 100 in a second asked: %v", len(asked), asked)
	}
	s.Step(Event{Kind: Began}, 2*time.Second, env)
	s.Step(Event{Kind: Ended, Known: true, Hint: driver.Hint{Client: 2, Left: time.Second}}, 2*time.Second, env)
	if a := s.Step(Event{Kind: Join}, 2*time.Second, env); a.Do != Probe || a.After != aloneTime {
		t.Errorf("a slot that another program wants: %+v", a)
	}
}

// TestGateTime: a gate stands until the next attempt, however long those take.
func TestGateTime(t *testing.T) {
	for _, tc := range []struct {
		gated           bool
		apart, ttl, end time.Duration
	}{
		{false, time.Minute, time.Hour, driver.GateTime},
		{true, time.Second, time.Hour, driver.GateTime},
		{true, 5 * time.Second, time.Hour, 15 * time.Second},
		{true, 5 * time.Second, 10 * time.Second, 10 * time.Second},
	} {
		s := Queue{Gated: tc.gated, apart: tc.apart}
		if got := s.GateTime(tc.ttl); got != tc.end {
			t.Errorf("%+v: %v", tc, got)
		}
	}
}
