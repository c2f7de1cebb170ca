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

// waits is a state in mode in which so many callers wait.
func waits(m Mode, n int, with ...func(*State)) State {
	s := State{Mode: m, Waiting: n, planned: Probe}
	for _, f := range with {
		f(&s)
	}
	return s
}

// The parts of a state.
func holds(s *State)     { s.Held, s.Since, s.tenure = s.Held+1, now-time.Minute, handoff }
func early(s *State)     { s.Since = now - handoff/2 }
func asked(s *State)     { s.noteHint(driver.Hint{}, now, Env{Client: me}) } // nobody wants it
func want(s *State)      { s.noteHint(hinted, now, Env{Client: me}) }
func stale(s *State)     { s.hint.at -= 3 * handoff }
func yields(s *State)    { s.yielding, s.yieldUntil = true, now+yieldTime }
func had(s *State)       { s.hadLast = true }
func own(s *State)       { s.ownPush = true }
func tries(s *State)     { s.planned = Try }
func quiet(s *State)     { s.asked = now - time.Minute }
func unclaimed(s *State) { s.hint.unclaimed = maxUnclaimed }
func saw(s *State)       { s.sawFree = true }
func turn(s *State)      { s.turn = true }
func kept(s *State)      { s.keptUntil = now + time.Minute }
func wasKept(s *State)   { s.keptUntil = now }
func sawFree(s *State)   { s.seen = seen{free: true, token: 5} }

func triedNow(s *State)   { s.asked = now - LastProbe/2 }
func turnWaited(s *State) { s.turnWaited = true }
func waitsShort(s *State) { s.tenureEnded = now - 300*wakeDelayPart*time.Microsecond }
func waitsLong(s *State)  { s.tenureEnded = now - 3*wakeDelayPart*time.Millisecond }

// TestStep is the transition table of the package comment.
func TestStep(t *testing.T) {
	queue, turns, push, hints := Env{Queue: true}, Env{Turns: true}, Env{Push: true}, Env{Hints: true}
	step := Backoff{}
	firstProbe, _ := step.next(false)
	for _, tc := range []struct {
		name  string
		state State
		event Event
		env   Env
		mode  Mode
		want  Action
	}{
		{"a caller of a key that this client has", waits(None, 0, holds), Event{Kind: Join}, Env{}, Resting, Action{Probe, handoff, NoJitter}},
		{"a caller of a key that this client has, beside an open stream", waits(None, 0, holds), Event{Kind: Join}, push, Resting, Action{Probe, handoff * 3 / 2, NoJitter}},
		{"a caller while the key is left to another", waits(None, 0, want, yields), Event{Kind: Join}, Env{}, Resting, Action{Probe, yieldTime, NoJitter}},
		{"and the server has a queue", waits(None, 0, want, yields), Event{Kind: Join}, queue, Queued, Action{Do: Queue}},
		{"a caller after the yield time", waits(None, 0, want, func(s *State) { s.yielding, s.yieldUntil = true, now }), Event{Kind: Join}, Env{}, Trying, Action{Do: Try}},
		{"a caller", State{}, Event{Kind: Join}, Env{}, Trying, Action{Do: Try}},
		{"a caller behind others", waits(Resting, 3), Event{Kind: Join}, Env{}, Resting, Action{}},

		{"granted, others wait", waits(Trying, 2, holds), Event{Kind: Granted}, Env{}, Resting, Action{Probe, handoff, NoJitter}},
		{"granted", waits(Trying, 0, holds), Event{Kind: Granted}, Env{}, None, Action{}},
		{"refused", waits(Trying, 1), Event{Kind: Refused}, Env{}, Resting, Action{Probe, firstProbe, JitterThird}},
		{"refused for a known time", waits(Trying, 1), Event{Kind: Refused, Left: time.Millisecond}, Env{}, Resting, Action{Probe, time.Millisecond, NoJitter}},
		{"refused after a probe of a free key", waits(Trying, 1, saw), Event{Kind: Refused}, Env{}, Resting, Action{Probe, FirstProbe << outrunStep, JitterThird}},
		{"refused beside a live stream", waits(Trying, 1), Event{Kind: Refused}, push, Resting, Action{Probe, pushProbe, JitterThird}},
		{"refused, pinned", waits(Trying, 1), Event{Kind: Refused, Pinned: true}, push, Resting, Action{Probe, LastProbe, JitterThird}},
		{"refused, the server has a queue", waits(Trying, 1), Event{Kind: Refused}, queue, Queued, Action{Do: Queue}},
		{"refused, pinned, the server has a queue", waits(Trying, 1), Event{Kind: Refused, Pinned: true}, queue, Resting, Action{Probe, LastProbe, JitterThird}},
		{"refused, the store is not sure whether it is pinned", waits(Trying, 1), Event{Kind: Refused, Pinned: true, Apart: true}, Env{}, Trying, Action{Do: Try}},
		{"refused in the server's queue", waits(Queued, 1), Event{Kind: Refused}, queue, Resting, Action{Probe, firstProbe, JitterThird}},
		{"failed", waits(Trying, 1), Event{Kind: Failed}, Env{}, Resting, Action{Try, firstRetry, JitterThird}},
		{"silent", waits(Trying, 1), Event{Kind: Failed, Silent: true, Took: time.Second}, Env{}, Resting, Action{Try, 0, JitterThird}},
		{"the first caller heard that it fails for good", waits(Trying, 1), Event{Kind: Again}, Env{}, Trying, Action{Do: Try}},

		{"no place, after a refusal", waits(Queued, 1), Event{Kind: NoPlace}, queue, Resting, Action{Probe, firstProbe, JitterThird}},
		{"no place, to leave the key to another", waits(Queued, 1, want, yields), Event{Kind: NoPlace}, queue, Resting, Action{Probe, yieldTime, NoJitter}},

		{"due, a try", waits(Resting, 1, tries), Event{Kind: Due}, Env{}, Trying, Action{Do: Try}},
		{"due, the hint is old", waits(Resting, 1, quiet), Event{Kind: Due}, hints, Trying, Action{Do: Try}},
		{"due, the hint is old, nobody can have the key", waits(Resting, 1, quiet, kept), Event{Kind: Due}, hints, Resting, Action{Do: Probe}},
		{"due, the hint is old, the key was kept until now", waits(Resting, 1, quiet, wasKept), Event{Kind: Due}, hints, Trying, Action{Do: Try}},
		{"due, another keeps too many hints", waits(Resting, 1, quiet), Event{Kind: Due}, Env{}, Resting, Action{Do: Probe}},
		{"due, a key of one's own needs no hint", waits(Resting, 1, quiet, holds), Event{Kind: Due}, hints, Resting, Action{Do: Probe}},
		{"due, moved on", waits(Trying, 1), Event{Kind: Due}, Env{}, Trying, Action{}},

		{"probed: free", waits(Resting, 1), Event{Kind: Probed, Free: true}, Env{}, Trying, Action{Do: Try}},
		{"probed: own, free: by force", waits(Resting, 1, holds), Event{Kind: Probed, Free: true}, Env{}, Trying, Action{Do: Try}},
		{"probed: own", waits(Resting, 1, holds, func(s *State) { s.ownProbe = handoff }), Event{Kind: Probed}, Env{}, Resting, Action{Probe, 2 * handoff, NoJitter}},
		{"probed: kept", waits(Resting, 1, quiet), Event{Kind: Probed, Kept: true, Left: time.Second}, hints, Resting, Action{Rest, time.Second, NoJitter}},
		{"probed: kept for long", waits(Resting, 1, quiet), Event{Kind: Probed, Kept: true, Left: time.Hour}, push, Resting, Action{Rest, keptProbe, JitterThird}},
		{"probed: kept after the yield time", waits(Resting, 1, yields), Event{Kind: Probed, Kept: true, Left: time.Second}, Env{}, Resting, Action{Rest, time.Second, NoJitter}},
		{"probed: kept, while a release of one's own is on its way", waits(Resting, 1, holds), Event{Kind: Probed, Kept: true, Left: time.Hour}, Env{}, Resting, Action{Probe, handoff, NoJitter}},
		{"probed in the queue: kept", waits(Queued, 1), Event{Kind: Probed, Kept: true, Left: time.Hour, Hint: hinted}, turns, Resting, Action{Rest, keptProbe, JitterThird}},
		{"probed in its turn: kept", waits(Resting, 1, turn), Event{Kind: Probed, Kept: true, Left: time.Second}, turns, Resting, Action{Rest, time.Second, NoJitter}},
		{"probed: kept, nobody waits any more", waits(None, 0), Event{Kind: Probed, Kept: true, Left: time.Second}, Env{}, None, Action{}},
		{"probed: another's, and there is no hint", waits(Resting, 1, quiet), Event{Kind: Probed}, hints, Trying, Action{Do: Try}},
		{"probed: another's, there is no hint, tried just now", waits(Resting, 1, triedNow), Event{Kind: Probed}, hints, Resting, Action{Probe, firstProbe, JitterThird}},
		{"probed: another's, and a hint of a third", waits(Resting, 1, quiet), Event{Kind: Probed, Hint: hinted}, hints, Resting, Action{Probe, firstProbe, JitterThird}},
		{"probed: another's, and the own hint", waits(Resting, 1, quiet), Event{Kind: Probed, Hint: mine}, hints, Resting, Action{Probe, nextProbe, JitterThird}},
		{"probed: another's after the yield time", waits(Resting, 1, yields), Event{Kind: Probed, Hint: hinted}, hints, Resting, Action{Probe, LastProbe, JitterThird}},
		{"probed: own, wanted by another", waits(Resting, 1, holds), Event{Kind: Probed, Hint: hinted}, Env{}, Resting, Action{Probe, maxOwnProbe, NoJitter}},
		{"probed: own, for long", waits(Resting, 1, holds, func(s *State) { s.ownProbe = time.Hour }), Event{Kind: Probed}, Env{}, Resting, Action{Probe, maxOwnProbe, NoJitter}},
		{"probed: another's", waits(Resting, 1), Event{Kind: Probed}, Env{}, Resting, Action{Probe, firstProbe, JitterThird}},
		{"probed, nobody waits any more", waits(Resting, 0), Event{Kind: Probed, Free: true}, Env{}, Resting, Action{}},
		{"probe failed", waits(Resting, 1), Event{Kind: ProbeFailed}, Env{}, Resting, Action{Probe, firstRetry, JitterThird}},
		{"probe fails for good", waits(Resting, 1), Event{Kind: ProbeFailed, Lasting: true}, Env{}, Trying, Action{Do: Try}},

		{"woken", waits(Resting, 1), Event{Kind: Woken}, push, Trying, Action{Do: Try}},
		{"woken while it leaves the key to another", waits(Resting, 1, want, yields), Event{Kind: Woken}, push, Trying, Action{Do: Try}},
		{"woken, had it last", waits(Resting, 1, had), Event{Kind: Woken}, push, Resting, Action{Try, wakeJitter, JitterFull}},
		{"woken, has waited for a short time", waits(Resting, 1, waitsShort), Event{Kind: Woken}, push, Resting, Action{Try, maxWakeDelay - 300*time.Microsecond, NoJitter}},
		{"woken, has waited for long", waits(Resting, 1, waitsLong), Event{Kind: Woken}, push, Trying, Action{Do: Try}},
		{"woken by its own release", waits(Resting, 1, own), Event{Kind: Woken}, push, Resting, Action{}},
		{"woken, has it", waits(Resting, 1, holds), Event{Kind: Woken}, push, Resting, Action{}},
		{"woken, others queue in the server", waits(Resting, 1, want), Event{Kind: Woken}, queue, Queued, Action{Do: Queue}},
		{"the stream has opened", waits(Resting, 1), Event{Kind: Stream}, push, Resting, Action{Probe, FirstProbe, JitterFull}},
		{"the stream has opened, this client has it", waits(Resting, 1, holds), Event{Kind: Stream}, push, Resting, Action{}},

		{"release: nobody else wants it", waits(Resting, 1, holds, asked), Event{Kind: Releasing}, Env{}, Resting, Action{Do: HandOff}},
		{"release: wanted", waits(Resting, 1, holds, want), Event{Kind: Releasing}, Env{}, Resting, Action{Do: Release}},
		{"release: wanted, within the tenure", waits(Resting, 1, holds, want, early), Event{Kind: Releasing}, Env{}, Resting, Action{Do: HandOff}},
		{"release: wanted, and not taken when it was left alone", waits(Resting, 1, holds, want, unclaimed), Event{Kind: Releasing}, Env{}, Resting, Action{Do: HandOff}},
		{"release: not probed for long", waits(Resting, 1, holds, asked, stale), Event{Kind: Releasing}, Env{}, Resting, Action{Do: Release}},
		{"release: not probed yet", waits(Resting, 1, holds), Event{Kind: Releasing}, Env{}, Resting, Action{Do: Release}},
		{"release: nobody waits", waits(None, 0, holds, asked), Event{Kind: Releasing}, Env{}, None, Action{Do: Release}},

		{"lost", waits(Resting, 1, holds), Event{Kind: Ended, Lost: true}, Env{}, Trying, Action{Do: Try}},
		{"lost, others queue in the server", waits(Resting, 1, holds, want), Event{Kind: Ended, Lost: true}, queue, Queued, Action{Do: Queue}},
		{"released, nobody else wants it", waits(Resting, 1, holds), Event{Kind: Ended, Known: true}, Env{}, Trying, Action{Do: Try}},
		{"released, the own hint", waits(Resting, 1, holds), Event{Kind: Ended, Known: true, Hint: mine}, Env{}, Trying, Action{Do: Try}},
		{"released in its turn, for which it had to wait", waits(Resting, 1, holds, turn, turnWaited), Event{Kind: Ended, Known: true}, turns, Queued, Action{Queue, queueProbe, JitterThird}},
		{"released in its turn, for which it had not to wait", waits(Resting, 1, holds, turn), Event{Kind: Ended, Known: true}, turns, Trying, Action{Do: Try}},
		{"released, not known", waits(Resting, 1, holds), Event{Kind: Ended}, Env{}, Trying, Action{Do: Try}},
		{"released, wanted", waits(Resting, 1, holds), Event{Kind: Ended, Known: true, Hint: hinted}, Env{}, Resting, Action{Probe, yieldTime, NoJitter}},
		{"released, wanted, within the tenure", waits(Resting, 1, holds, early), Event{Kind: Ended, Known: true, Hint: hinted}, Env{}, Trying, Action{Do: Try}},
		{"released, wanted, the server has a queue", waits(Resting, 1, holds), Event{Kind: Ended, Known: true, Hint: hinted}, queue, Queued, Action{Do: Queue}},
		{"released, another grant of this client has it", waits(Resting, 1, holds, holds), Event{Kind: Ended}, Env{}, Resting, Action{}},

		{"refused, the server has turns", waits(Trying, 1), Event{Kind: Refused}, turns, Queued, Action{Queue, queueProbe, JitterThird}},
		{"refused in its turn", waits(Trying, 1, turn), Event{Kind: Refused}, turns, Resting, Action{Probe, firstProbe, JitterThird}},
		{"its turn", waits(Queued, 1), Event{Kind: Turn}, turns, Trying, Action{Do: Try}},
		{"its turn, an attempt is on its way", waits(Trying, 1), Event{Kind: Turn}, turns, Trying, Action{}},
		{"its turn, nobody waits any more", waits(None, 0), Event{Kind: Turn}, turns, None, Action{Do: EndTurn}},
		{"due in the queue", waits(Queued, 1), Event{Kind: Due}, turns, Queued, Action{Do: Probe}},
		{"probed in the queue: another's hint", waits(Queued, 1), Event{Kind: Probed, Hint: hinted}, turns, Queued, Action{Probe, queueProbe, JitterThird}},
		{"probed in the queue: no hint", waits(Queued, 1), Event{Kind: Probed}, turns, Trying, Action{Do: Try}},
		{"probed in the queue: the own hint is old", waits(Queued, 1), Event{Kind: Probed, Hint: driver.Hint{Client: me, Left: hintEvery - 1}}, turns, Trying, Action{Do: Try}},
		{"probed in the queue: the own hint is fresh", waits(Queued, 1), Event{Kind: Probed, Hint: driver.Hint{Client: me, Left: hintEvery}}, turns, Queued, Action{Probe, queueProbe, JitterThird}},
		{"probed in the queue: free", waits(Queued, 1), Event{Kind: Probed, Free: true, Token: 5}, turns, Queued, Action{Probe, LastProbe, JitterThird}},
		{"probed in the queue: free after another hold", waits(Queued, 1, sawFree), Event{Kind: Probed, Free: true, Token: 6}, turns, Queued, Action{Probe, LastProbe, JitterThird}},
		{"probed in the queue: free again", waits(Queued, 1, sawFree), Event{Kind: Probed, Free: true, Token: 5, Hint: hinted}, turns, Trying, Action{Do: Try}},
		{"probed in the queue: held after a free one", waits(Queued, 1, sawFree), Event{Kind: Probed, Token: 6, Hint: hinted}, turns, Queued, Action{Probe, queueProbe, JitterThird}},
		{"probe in the queue failed", waits(Queued, 1), Event{Kind: ProbeFailed}, turns, Queued, Action{Probe, queueProbe, JitterThird}},
		{"released in its turn, wanted", waits(Resting, 1, holds, turn), Event{Kind: Ended, Known: true, Hint: hinted}, turns, Queued, Action{Queue, queueProbe, JitterThird}},
		{"released in its turn, nobody else wants it", waits(Resting, 1, holds, turn), Event{Kind: Ended, Known: true}, turns, Trying, Action{Do: Try}},
		{"released in its turn, nobody waits", waits(None, 0, holds, turn), Event{Kind: Ended, Known: true}, turns, None, Action{Do: EndTurn}},
		{"no turns to be had", waits(Queued, 1), Event{Kind: NoPlace}, turns, Resting, Action{Probe, firstProbe, JitterThird}},
		{"no turns to be had, an attempt is on its way", waits(Trying, 1), Event{Kind: NoPlace}, turns, Trying, Action{}},
		{"no turns to be had, a probe is planned", waits(Resting, 1), Event{Kind: NoPlace}, turns, Resting, Action{}},
		{"probed, and waits in a queue that grants since", waits(Queued, 1), Event{Kind: Probed}, queue, Queued, Action{}},
		{"probe failed, and waits in a queue that grants since", waits(Queued, 1), Event{Kind: ProbeFailed, Lasting: true}, queue, Queued, Action{}},

		{"the last caller left", waits(Resting, 1), Event{Kind: Left}, Env{}, None, Action{Do: Stop}},
		{"the last caller left an attempt", waits(Trying, 1), Event{Kind: Left}, Env{}, None, Action{Do: Stop}},
		{"the last caller left the server's queue", waits(Queued, 1), Event{Kind: Left}, queue, None, Action{Do: Stop}},
		{"one of two left", waits(Resting, 2), Event{Kind: Left}, Env{}, Resting, Action{}},
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

// TestUnclaimedHints: a hint for which nobody took the key in two yield times does not
// count, until it is renewed. Whether somebody did is known from the token.
func TestUnclaimedHints(t *testing.T) {
	for _, env := range []Env{{}, {Push: true}} {
		env.Client, env.Handoff = me, handoff
		s := waits(Trying, 2)
		at, token := time.Duration(now), int64(0)
		// round has the key for longer than Handoff, and releases it though there is a hint that
		// ends then. After the yield time it is free; another client may have had it meanwhile.
		round := func(until time.Duration, taken bool) (yielded bool) {
			token += driver.TokenRange
			s.Step(Event{Kind: Began, Token: token}, at, env)
			s.Step(Event{Kind: Granted}, at, env)
			at += 2 * handoff
			a := s.Step(Event{Kind: Ended, Known: true, Hint: driver.Hint{Client: 8, Left: until - at}}, at, env)
			if a.After == 0 {
				return false
			}
			if at += a.After; taken {
				token += driver.TokenRange
			}
			if a = s.Step(Event{Kind: Due}, at, env); a.Do == Probe {
				a = s.Step(Event{Kind: Probed, Free: true, Token: token}, at, env)
			}
			if a.Do != Try {
				t.Fatalf("the key is free: %+v", a)
			}
			return true
		}
		end := at + driver.HintTime
		if !env.Push { // the stream tells
			for i := range 5 {
				if !round(end, true) {
					t.Fatalf("round %d: no yield time, though another takes the key each time", i)
				}
			}
		}
		for i := range 2 {
			if !round(end, false) {
				t.Fatalf("round %d: no yield time", i)
			}
		}
		if round(end, false) {
			t.Error("a yield time after two in which nobody took the key")
		}
		if !round(end+hintEvery, false) {
			t.Error("no yield time though the hint was renewed")
		}
		s.Step(Event{Kind: Refused}, at, env)
		if s.Hinted(at) {
			t.Error("another has come, and is still taken to wait")
		}
	}
}

// TestTurnBehindAHolder: a client that has the turn at once, but has to wait for the key,
// knows that another had it, and releases it after its tenure.
func TestTurnBehindAHolder(t *testing.T) {
	env := Env{Client: me, Handoff: handoff, Turns: true}
	s := waits(Queued, 1)
	s.Step(Event{Kind: Turn}, now, env)
	s.Step(Event{Kind: Refused}, now, env)
	s.Step(Event{Kind: Probed, Free: true}, now+1, env)
	s.Waiting = 2
	s.Step(Event{Kind: Began}, now+1, env)
	s.Step(Event{Kind: Granted}, now+1, env)
	s.noteHint(driver.Hint{}, now+2*handoff, env)
	if a := s.Step(Event{Kind: Releasing}, now+2*handoff, env); a.Do != Release {
		t.Errorf("after its tenure: %+v, want a release", a)
	}
}

// TestTenureOfManyPrograms: the longer the callers here had to wait for the key, the more other
// programs wait, and the shorter this client keeps it: also when it gets the key for the first time.
func TestTenureOfManyPrograms(t *testing.T) {
	for _, env := range []Env{{Turns: true}, {Queue: true}} {
		env.Client, env.Handoff = me, handoff
		for _, tc := range []struct{ waited, tenure time.Duration }{
			{0, handoff}, {handoff, handoff / 2}, {9 * handoff, handoff / 10},
		} {
			var s State
			s.Step(Event{Kind: Join}, now, env)
			s.Step(Event{Kind: Began}, now+tc.waited, env)
			if s.tenure != tc.tenure {
				t.Errorf("a wait of %v: a tenure of %v, want %v", tc.waited, s.tenure, tc.tenure)
			}
		}
	}
}

// TestQueueBehindAnother: a client that was granted the key out of the server's queue, behind
// another, releases it after its tenure, though no hint is on the key: those who wait in the
// queue renew none.
func TestQueueBehindAnother(t *testing.T) {
	env := Env{Client: me, Handoff: handoff, Queue: true}
	for _, behind := range []bool{false, true} {
		s := waits(Queued, 3)
		at := time.Duration(now)
		s.Step(Event{Kind: Began, Known: behind, Hint: driver.Hint{Client: 1, Left: driver.HintTime}}, at, env)
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
	}
}

// TestShortHolds: while callers here hand the key off, each after a short time, the probes
// that ask whether another wants it are sent all the same.
func TestShortHolds(t *testing.T) {
	env := Env{Client: me, Handoff: handoff}
	s := waits(Trying, 1000)
	at := time.Duration(now)
	s.Step(Event{Kind: Began}, at, env)
	due := at + s.Step(Event{Kind: Granted}, at, env).After
	asked, probes := time.Duration(0), 0
	for tick := range 1000 {
		at += time.Millisecond
		if tick%9 == 8 {
			if s.Step(Event{Kind: Releasing}, at, env).Do != HandOff {
				t.Fatalf("after %v nobody else is known to want it, and it is released", at-now)
			}
			if a := s.HandedOff(at, env); a.Do == Probe {
				due, asked = at+a.After, 0
			}
		}
		switch {
		case asked > 0 && at > asked: // answered
			asked = 0
			due = at + s.Step(Event{Kind: Probed}, at, env).After
		case asked == 0 && due <= at:
			if s.Step(Event{Kind: Due}, at, env).Do != Probe {
				t.Fatal("no probe when it is due")
			}
			asked = at
			probes++
		}
	}
	if probes < 10 || probes > 20 {
		t.Errorf("%d probes in a second", probes)
	}
}

// TestHintsOfOthersOnly: the own hint tells nothing, and one ends by itself.
func TestHintsOfOthersOnly(t *testing.T) {
	env := Env{Client: me, Handoff: handoff}
	var s State
	s.noteHint(mine, now, env)
	if s.Hinted(now) {
		t.Error("the own hint is taken for another's")
	}
	s.noteHint(hinted, now, env)
	if !s.Hinted(now) || s.Hinted(now+hinted.Left) || !s.Knows(now) || s.Knows(now+hinted.Left) {
		t.Error("another's hint does not count, or does not end")
	}
}
