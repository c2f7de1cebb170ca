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
	s := State{Mode: m, Waiting: n, planned: Look}
	for _, f := range with {
		f(&s)
	}
	return s
}

// The parts of a state.
func holds(s *State)  { s.Held, s.Since, s.window = s.Held+1, now-time.Minute, handoff }
func young(s *State)  { s.Since = now - handoff/2 }
func asked(s *State)  { s.learn(driver.Hint{}, now, Env{Client: me}) } // nobody wants it
func want(s *State)   { s.learn(hinted, now, Env{Client: me}) }
func stale(s *State)  { s.wanted.at -= 3 * handoff }
func yields(s *State) { s.pausing, s.until = true, now+pause }
func had(s *State)    { s.last = true }
func own(s *State)    { s.ownPush = true }
func tries(s *State)  { s.planned = Try }
func quiet(s *State)  { s.asked = now - time.Minute }
func vain(s *State)   { s.wanted.vain = vainPauses }
func saw(s *State)    { s.free = true }
func turn(s *State)   { s.turn = true }
func behind(s *State) { s.behind = true }

// waitsShort and waitsLong are times of a wait.
func waitsShort(s *State) { s.went = now - 300*courtesyPart*time.Microsecond }
func waitsLong(s *State)  { s.went = now - 3*courtesyPart*time.Millisecond }

func sawFree(s *State) { s.seen = seen{free: true, token: 5} }

// TestStep is the transition table of the package comment.
func TestStep(t *testing.T) {
	queue, turns, push, hints := Env{Queue: true}, Env{Turns: true}, Env{Push: true}, Env{Hints: true}
	step := Pace{}
	firstLook, _ := step.next(false)
	for _, tc := range []struct {
		name  string
		state State
		event Event
		env   Env
		mode  Mode
		want  Action
	}{
		{"a caller of a key that this client has", waits(None, 0, holds), Event{Kind: Join}, Env{}, Resting, Action{Look, handoff, Exact}},
		{"a caller of a key that this client has, beside a live stream", waits(None, 0, holds), Event{Kind: Join}, push, Resting, Action{Look, handoff * 3 / 2, Exact}},
		{"a caller in the pause for another", waits(None, 0, want, yields), Event{Kind: Join}, Env{}, Resting, Action{Try, pause, Exact}},
		{"and the server has a queue", waits(None, 0, want, yields), Event{Kind: Join}, queue, Queued, Action{Do: Queue}},
		{"a caller after the pause", waits(None, 0, want, func(s *State) { s.pausing, s.until = true, now }), Event{Kind: Join}, Env{}, Trying, Action{Do: Try}},
		{"a caller", State{}, Event{Kind: Join}, Env{}, Trying, Action{Do: Try}},
		{"a caller behind others", waits(Resting, 3), Event{Kind: Join}, Env{}, Resting, Action{}},

		{"granted, others wait", waits(Trying, 2, holds), Event{Kind: Granted}, Env{}, Resting, Action{Look, handoff, Exact}},
		{"granted", waits(Trying, 0, holds), Event{Kind: Granted}, Env{}, None, Action{}},
		{"refused", waits(Trying, 1), Event{Kind: Refused}, Env{}, Resting, Action{Look, firstLook, Third}},
		{"refused for a known time", waits(Trying, 1), Event{Kind: Refused, Left: time.Millisecond}, Env{}, Resting, Action{Look, time.Millisecond, Exact}},
		{"refused after a look at a free key", waits(Trying, 1, saw), Event{Kind: Refused}, Env{}, Resting, Action{Look, FirstProbe << outrunStep, Third}},
		{"refused beside a live stream", waits(Trying, 1), Event{Kind: Refused}, push, Resting, Action{Look, pushProbe, Third}},
		{"refused, pinned", waits(Trying, 1), Event{Kind: Refused, Pinned: true}, push, Resting, Action{Look, LastProbe, Third}},
		{"refused, the server has a queue", waits(Trying, 1), Event{Kind: Refused}, queue, Queued, Action{Do: Queue}},
		{"refused, pinned, the server has a queue", waits(Trying, 1), Event{Kind: Refused, Pinned: true}, queue, Resting, Action{Look, LastProbe, Third}},
		{"refused, the store is not sure whether it is pinned", waits(Trying, 1), Event{Kind: Refused, Pinned: true, Apart: true}, Env{}, Trying, Action{Do: Try}},
		{"refused in the server's queue", waits(Queued, 1), Event{Kind: Refused}, queue, Resting, Action{Look, firstLook, Third}},
		{"failed", waits(Trying, 1), Event{Kind: Failed}, Env{}, Resting, Action{Try, firstRetry, Third}},
		{"silent", waits(Trying, 1), Event{Kind: Failed, Silent: true, Took: time.Second}, Env{}, Resting, Action{Try, 0, Third}},
		{"the first caller heard that it fails for good", waits(Trying, 1), Event{Kind: Again}, Env{}, Trying, Action{Do: Try}},

		{"no place, after a refusal", waits(Queued, 1), Event{Kind: NoPlace}, queue, Resting, Action{Look, firstLook, Third}},
		{"no place, to leave the key to another", waits(Queued, 1, want, yields), Event{Kind: NoPlace}, queue, Resting, Action{Try, pause, Exact}},

		{"due, a try", waits(Resting, 1, tries), Event{Kind: Due}, Env{}, Trying, Action{Do: Try}},
		{"due, the hint is old", waits(Resting, 1, quiet), Event{Kind: Due}, hints, Trying, Action{Do: Try}},
		{"due, another keeps too many hints", waits(Resting, 1, quiet), Event{Kind: Due}, Env{}, Resting, Action{Do: Look}},
		{"due, a key of one's own needs no hint", waits(Resting, 1, quiet, holds), Event{Kind: Due}, hints, Resting, Action{Do: Look}},
		{"due, moved on", waits(Trying, 1), Event{Kind: Due}, Env{}, Trying, Action{}},

		{"looked: free", waits(Resting, 1), Event{Kind: Looked, Free: true}, Env{}, Trying, Action{Do: Try}},
		{"looked: own, free: by force", waits(Resting, 1, holds), Event{Kind: Looked, Free: true}, Env{}, Trying, Action{Do: Try}},
		{"looked: own", waits(Resting, 1, holds, func(s *State) { s.own = handoff }), Event{Kind: Looked}, Env{}, Resting, Action{Look, 2 * handoff, Exact}},
		{"looked: own, wanted by another", waits(Resting, 1, holds), Event{Kind: Looked, Hint: hinted}, Env{}, Resting, Action{Look, ownLookMost, Exact}},
		{"looked: own, for long", waits(Resting, 1, holds, func(s *State) { s.own = time.Hour }), Event{Kind: Looked}, Env{}, Resting, Action{Look, ownLookMost, Exact}},
		{"looked: another's", waits(Resting, 1), Event{Kind: Looked}, Env{}, Resting, Action{Look, firstLook, Third}},
		{"looked, nobody waits any more", waits(Resting, 0), Event{Kind: Looked, Free: true}, Env{}, Resting, Action{}},
		{"look failed", waits(Resting, 1), Event{Kind: LookFailed}, Env{}, Resting, Action{Look, firstRetry, Third}},
		{"look fails for good", waits(Resting, 1), Event{Kind: LookFailed, Lasting: true}, Env{}, Trying, Action{Do: Try}},

		{"woken", waits(Resting, 1), Event{Kind: Woken}, push, Trying, Action{Do: Try}},
		{"woken from the pause", waits(Resting, 1, want, yields), Event{Kind: Woken}, push, Trying, Action{Do: Try}},
		{"woken, had it last", waits(Resting, 1, had), Event{Kind: Woken}, push, Resting, Action{Try, wakeSpread, Within}},
		{"woken, has waited for a short time", waits(Resting, 1, waitsShort), Event{Kind: Woken}, push, Resting, Action{Try, wakeCourtesy - 300*time.Microsecond, Exact}},
		{"woken, has waited for long", waits(Resting, 1, waitsLong), Event{Kind: Woken}, push, Trying, Action{Do: Try}},
		{"woken by its own release", waits(Resting, 1, own), Event{Kind: Woken}, push, Resting, Action{}},
		{"woken, has it", waits(Resting, 1, holds), Event{Kind: Woken}, push, Resting, Action{}},
		{"woken, others queue in the server", waits(Resting, 1, want), Event{Kind: Woken}, queue, Queued, Action{Do: Queue}},
		{"the stream has opened", waits(Resting, 1), Event{Kind: Stream}, push, Resting, Action{Look, FirstProbe, Within}},
		{"the stream has opened, this client has it", waits(Resting, 1, holds), Event{Kind: Stream}, push, Resting, Action{}},

		{"release: nobody else wants it", waits(Resting, 1, holds, asked), Event{Kind: Releasing}, Env{}, Resting, Action{Do: Pass}},
		{"release: wanted", waits(Resting, 1, holds, want), Event{Kind: Releasing}, Env{}, Resting, Action{Do: Back}},
		{"release: wanted, a young tenure", waits(Resting, 1, holds, want, young), Event{Kind: Releasing}, Env{}, Resting, Action{Do: Pass}},
		{"release: wanted in vain", waits(Resting, 1, holds, want, vain), Event{Kind: Releasing}, Env{}, Resting, Action{Do: Pass}},
		{"release: not looked at for long", waits(Resting, 1, holds, asked, stale), Event{Kind: Releasing}, Env{}, Resting, Action{Do: Back}},
		{"release: never looked at", waits(Resting, 1, holds), Event{Kind: Releasing}, Env{}, Resting, Action{Do: Back}},
		{"release: nobody waits", waits(None, 0, holds, asked), Event{Kind: Releasing}, Env{}, None, Action{Do: Back}},

		{"lost", waits(Resting, 1, holds), Event{Kind: Ended, Lost: true}, Env{}, Trying, Action{Do: Try}},
		{"lost, others queue in the server", waits(Resting, 1, holds, want), Event{Kind: Ended, Lost: true}, queue, Queued, Action{Do: Queue}},
		{"released, nobody else wants it", waits(Resting, 1, holds), Event{Kind: Ended, Known: true}, Env{}, Trying, Action{Do: Try}},
		{"released, the own hint", waits(Resting, 1, holds), Event{Kind: Ended, Known: true, Hint: mine}, Env{}, Trying, Action{Do: Try}},
		{"released in its turn, for which it had to wait", waits(Resting, 1, holds, turn, behind), Event{Kind: Ended, Known: true}, turns, Queued, Action{Queue, queueLook, Third}},
		{"released in its turn, for which it had not to wait", waits(Resting, 1, holds, turn), Event{Kind: Ended, Known: true}, turns, Trying, Action{Do: Try}},
		{"released, not known", waits(Resting, 1, holds), Event{Kind: Ended}, Env{}, Trying, Action{Do: Try}},
		{"released, wanted", waits(Resting, 1, holds), Event{Kind: Ended, Known: true, Hint: hinted}, Env{}, Resting, Action{Try, pause, Exact}},
		{"released, wanted, a young tenure", waits(Resting, 1, holds, young), Event{Kind: Ended, Known: true, Hint: hinted}, Env{}, Trying, Action{Do: Try}},
		{"released, wanted, the server has a queue", waits(Resting, 1, holds), Event{Kind: Ended, Known: true, Hint: hinted}, queue, Queued, Action{Do: Queue}},
		{"released, another grant of this client has it", waits(Resting, 1, holds, holds), Event{Kind: Ended}, Env{}, Resting, Action{}},

		{"refused, the server has turns", waits(Trying, 1), Event{Kind: Refused}, turns, Queued, Action{Queue, queueLook, Third}},
		{"refused in its turn", waits(Trying, 1, turn), Event{Kind: Refused}, turns, Resting, Action{Look, firstLook, Third}},
		{"its turn", waits(Queued, 1), Event{Kind: Turn}, turns, Trying, Action{Do: Try}},
		{"its turn, an attempt is on its way", waits(Trying, 1), Event{Kind: Turn}, turns, Trying, Action{}},
		{"its turn, nobody waits any more", waits(None, 0), Event{Kind: Turn}, turns, None, Action{Do: EndTurn}},
		{"due in the queue", waits(Queued, 1), Event{Kind: Due}, turns, Queued, Action{Do: Look}},
		{"looked in the queue: another's hint stands", waits(Queued, 1), Event{Kind: Looked, Hint: hinted}, turns, Queued, Action{Look, queueLook, Third}},
		{"looked in the queue: no hint stands", waits(Queued, 1), Event{Kind: Looked}, turns, Trying, Action{Do: Try}},
		{"looked in the queue: the own hint is old", waits(Queued, 1), Event{Kind: Looked, Hint: driver.Hint{Client: me, Left: hintEvery - 1}}, turns, Trying, Action{Do: Try}},
		{"looked in the queue: the own hint is fresh", waits(Queued, 1), Event{Kind: Looked, Hint: driver.Hint{Client: me, Left: hintEvery}}, turns, Queued, Action{Look, queueLook, Third}},
		{"looked in the queue: free", waits(Queued, 1), Event{Kind: Looked, Free: true, Token: 5}, turns, Queued, Action{Look, LastProbe, Third}},
		{"looked in the queue: free after another hold", waits(Queued, 1, sawFree), Event{Kind: Looked, Free: true, Token: 6}, turns, Queued, Action{Look, LastProbe, Third}},
		{"looked in the queue: free again", waits(Queued, 1, sawFree), Event{Kind: Looked, Free: true, Token: 5, Hint: hinted}, turns, Trying, Action{Do: Try}},
		{"looked in the queue: held after a free one", waits(Queued, 1, sawFree), Event{Kind: Looked, Token: 6, Hint: hinted}, turns, Queued, Action{Look, queueLook, Third}},
		{"look in the queue failed", waits(Queued, 1), Event{Kind: LookFailed}, turns, Queued, Action{Look, queueLook, Third}},
		{"released in its turn, wanted", waits(Resting, 1, holds, turn), Event{Kind: Ended, Known: true, Hint: hinted}, turns, Queued, Action{Queue, queueLook, Third}},
		{"released in its turn, nobody else wants it", waits(Resting, 1, holds, turn), Event{Kind: Ended, Known: true}, turns, Trying, Action{Do: Try}},
		{"released in its turn, nobody waits", waits(None, 0, holds, turn), Event{Kind: Ended, Known: true}, turns, None, Action{Do: EndTurn}},
		{"no turns to be had", waits(Queued, 1), Event{Kind: NoPlace}, turns, Resting, Action{Look, firstLook, Third}},
		{"no turns to be had, an attempt is on its way", waits(Trying, 1), Event{Kind: NoPlace}, turns, Trying, Action{}},
		{"no turns to be had, a look is planned", waits(Resting, 1), Event{Kind: NoPlace}, turns, Resting, Action{}},
		{"looked, and waits in a queue that grants since", waits(Queued, 1), Event{Kind: Looked}, queue, Queued, Action{}},
		{"look failed, and waits in a queue that grants since", waits(Queued, 1), Event{Kind: LookFailed, Lasting: true}, queue, Queued, Action{}},

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

// TestVainHints: a hint for which nobody came in two pauses does not count, until it is
// renewed.
func TestVainHints(t *testing.T) {
	env := Env{Client: me, Handoff: handoff}
	s := waits(Trying, 2)
	at := time.Duration(now)
	// round has the key for longer than Handoff, and gives it back to a hint that ends then.
	round := func(until time.Duration) Action {
		s.Step(Event{Kind: Began}, at, env)
		s.Step(Event{Kind: Granted}, at, env)
		at += 2 * handoff
		a := s.Step(Event{Kind: Ended, Known: true, Hint: driver.Hint{Client: 8, Left: until - at}}, at, env)
		if a.Do == Try && a.After > 0 {
			at += a.After
			s.Step(Event{Kind: Due}, at, env)
		}
		return a
	}
	end := at + driver.HintTime
	for i := range 2 {
		if a := round(end); a.After != pause {
			t.Fatalf("round %d: %+v, want a pause", i, a)
		}
	}
	if a := round(end); a.After != 0 {
		t.Errorf("after two pauses in vain: %+v", a)
	}
	if a := round(end + hintEvery); a.After != pause {
		t.Errorf("the hint was renewed: %+v, want a pause", a)
	}
	s.Step(Event{Kind: Refused}, at, env)
	if s.other(at) {
		t.Error("another has come, and is still taken to wait")
	}
}

// TestTurnBehindAHolder: who has its turn at once, but has to wait for the key, knows that
// another had it, and gives it back after its tenure.
func TestTurnBehindAHolder(t *testing.T) {
	env := Env{Client: me, Handoff: handoff, Turns: true}
	s := waits(Queued, 1)
	s.Step(Event{Kind: Turn}, now, env)
	s.Step(Event{Kind: Refused}, now, env)
	s.Step(Event{Kind: Looked, Free: true}, now+1, env)
	s.Waiting = 2
	s.Step(Event{Kind: Began}, now+1, env)
	s.Step(Event{Kind: Granted}, now+1, env)
	s.learn(driver.Hint{}, now+2*handoff, env)
	if a := s.Step(Event{Kind: Releasing}, now+2*handoff, env); a.Do != Back {
		t.Errorf("after its tenure: %+v, want it to go back", a)
	}
}

// TestPassing: while callers here pass the key on, each for a short time, the looks that ask
// whether another wants it come all the same.
func TestPassing(t *testing.T) {
	env := Env{Client: me, Handoff: handoff}
	s := waits(Trying, 1000)
	at := time.Duration(now)
	s.Step(Event{Kind: Began}, at, env)
	s.learn(driver.Hint{}, at, env)
	due := at + s.Step(Event{Kind: Granted}, at, env).After
	asked, looks := time.Duration(0), 0
	for tick := range 1000 {
		at += time.Millisecond
		if tick%9 == 8 {
			if s.Step(Event{Kind: Releasing}, at, env).Do != Pass {
				t.Fatalf("after %v nobody else is known to want it, and it goes back", at-now)
			}
			if a := s.Passed(at, env); a.Do == Look {
				due, asked = at+a.After, 0
			}
		}
		switch {
		case asked > 0 && at > asked: // answered
			asked = 0
			due = at + s.Step(Event{Kind: Looked}, at, env).After
		case asked == 0 && due <= at:
			if s.Step(Event{Kind: Due}, at, env).Do != Look {
				t.Fatal("no look when it is due")
			}
			asked = at
			looks++
		}
	}
	if looks < 10 || looks > 20 {
		t.Errorf("%d looks in a second", looks)
	}
}

// TestHintsOfOthersOnly: the own hint tells nothing, and one ends by itself.
func TestHintsOfOthersOnly(t *testing.T) {
	env := Env{Client: me, Handoff: handoff}
	var s State
	s.learn(mine, now, env)
	if s.Contested(now) {
		t.Error("the own hint is taken for another's")
	}
	s.learn(hinted, now, env)
	if !s.Contested(now) || s.Contested(now+hinted.Left) || !s.Knows(now) || s.Knows(now+hinted.Left) {
		t.Error("another's hint does not count, or does not end")
	}
}
