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
func hasOne(s *State)    { s.Held++ } // beside others
func early(s *State)     { s.Since = now - handoff/2 }
func asked(s *State)     { s.noteHint(driver.Hint{}, now, Env{Client: me}) } // nobody wants it
func want(s *State)      { s.noteHint(hinted, now, Env{Client: me}) }
func stale(s *State)     { s.hint.at -= 3 * handoff }
func yields(s *State)    { s.yielding, s.yieldUntil = true, now+yieldTime }
func had(s *State)       { s.hadLast = true }
func stands(s *State)    { s.standing = standing{hinted.Client, now - longHint} }
func own(s *State)       { s.ownPush = true }
func tries(s *State)     { s.planned = Try }
func quiet(s *State)     { s.asked = now - time.Minute }
func unclaimed(s *State) { s.hint.unclaimed = maxUnclaimed }
func saw(s *State)       { s.sawFree = true }
func turn(s *State)      { s.turn = true }
func kept(s *State)      { s.keptUntil = now + time.Minute }
func wasKept(s *State)   { s.keptUntil = now }
func keptFor(d time.Duration) func(*State) {
	return func(s *State) { s.keptFrom, s.keptUntil = now-d, now+time.Hour }
}
func sawFree(s *State) { s.seen = seen{free: true, token: 5} }

func triedNow(s *State)   { s.asked = now - LastProbe/2 }
func turnWaited(s *State) { s.turnWaited = true }
func gated(s *State)      { s.Gated, s.asked = true, now-hintEvery/2 }
func waitsShort(s *State) { s.tenureEnded = now - 300*wakeDelayPart*time.Microsecond }
func behind(s *State)     { s.ahead = 1 }
func farBehind(s *State)  { s.ahead = 3 }
func isLate(s *State)     { s.late = late{token: 5, since: now - longHint} }
func sawHold(s *State)    { s.late.token = 5 }
func waitsLong(s *State)  { s.tenureEnded = now - 3*wakeDelayPart*time.Millisecond }

// TestStep is the transition table of the package comment.
func TestStep(t *testing.T) {
	queue, turns, push, hints := Env{Queue: true}, Env{Turns: true}, Env{Push: true}, Env{Hints: true}
	together, others, fair := Env{Together: true}, Env{Others: true}, Env{Fair: true}
	late := Env{Together: true, Late: true}
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
		{"refused by readers, the server has a queue that grants", waits(Trying, 1), Event{Kind: Refused, Phase: true}, queue, Resting, Action{Probe, firstProbe, JitterThird}},
		{"a reader behind an exclusive hold, the server has a queue", waits(Trying, 1), Event{Kind: Refused}, Env{Queue: true, Together: true}, Queued, Action{Do: Queue}},
		{"a slot behind slots, the server has a queue", waits(Trying, 1, hasOne), Event{Kind: Refused, Phase: true}, Env{Queue: true, Together: true}, Resting, Action{Probe, firstProbe, JitterThird}},
		{"a slot has ended that another wants, the server has a queue", waits(Resting, 1, want), Event{Kind: Ended, Known: true, Hint: hinted}, Env{Queue: true, Together: true}, Resting, Action{Probe, yieldTime, NoJitter}},
		{"a writer of this client has ended, the server has a queue", waits(Resting, 1, want), Event{Kind: Freed}, Env{Queue: true, Together: true}, Trying, Action{Do: Try}},
		{"refused in the server's queue", waits(Queued, 1), Event{Kind: Refused}, queue, Resting, Action{Probe, firstProbe, JitterThird}},
		{"failed", waits(Trying, 1), Event{Kind: Failed}, Env{}, Resting, Action{Try, firstRetry, JitterThird}},
		{"silent", waits(Trying, 1), Event{Kind: Failed, Silent: true, Took: time.Second}, Env{}, Resting, Action{Try, 0, JitterThird}},
		{"the first caller heard that it fails for good", waits(Trying, 1), Event{Kind: Again}, Env{}, Trying, Action{Do: Try}},

		{"a reader while this client has a reader", waits(None, 0, hasOne), Event{Kind: Join}, together, Trying, Action{Do: Try}},
		{"granted, other slots are wanted here", waits(Trying, 2, hasOne), Event{Kind: Granted}, together, Trying, Action{Do: Try}},
		{"granted to the last reader", waits(Trying, 0, hasOne), Event{Kind: Granted}, together, None, Action{}},
		{"refused, this client has a slot", waits(Trying, 1, hasOne), Event{Kind: Refused}, together, Resting, Action{Probe, firstProbe, JitterThird}},
		{"due, this client has a reader", waits(Resting, 1, quiet, hasOne), Event{Kind: Due}, Env{Together: true, Hints: true}, Trying, Action{Do: Try}},
		{"probed: free for a reader, this client has one", waits(Resting, 1, hasOne), Event{Kind: Probed, Free: true}, together, Trying, Action{Do: Try}},
		{"probed: held, this client has a slot", waits(Resting, 1, hasOne), Event{Kind: Probed}, together, Resting, Action{Probe, firstProbe, JitterThird}},
		{"woken, this client has a slot", waits(Resting, 1, hasOne), Event{Kind: Woken}, Env{Together: true, Push: true}, Trying, Action{Do: Try}},
		{"the stream has opened, this client has a slot", waits(Resting, 1, hasOne), Event{Kind: Stream}, Env{Together: true, Push: true}, Resting, Action{Probe, FirstProbe, JitterFull}},
		{"releasing a slot that another waits for", waits(Resting, 1, hasOne), Event{Kind: Releasing}, together, Resting, Action{Do: HandOff}},
		{"releasing a slot, an attempt is on its way", waits(Trying, 1, hasOne), Event{Kind: Releasing}, together, Trying, Action{Do: Release}},
		{"a slot was released, others are held", waits(Resting, 1, hasOne, hasOne), Event{Kind: Ended}, together, Trying, Action{Do: Try}},
		{"a slot was released, another client waits", waits(Resting, 1, hasOne, want), Event{Kind: Ended}, together, Resting, Action{Probe, yieldTime, NoJitter}},
		{"a slot was lost, another client waits", waits(Resting, 1, hasOne, want), Event{Kind: Ended, Lost: true}, together, Trying, Action{Do: Try}},
		{"woken, leaves a slot to another client", waits(Resting, 1, want, yields), Event{Kind: Woken}, Env{Together: true, Push: true}, Resting, Action{}},
		{"a slot was released, nobody waits", waits(None, 0, hasOne), Event{Kind: Ended}, together, None, Action{}},
		{"a slot was released, an attempt is on its way", waits(Trying, 1, hasOne), Event{Kind: Ended}, together, Trying, Action{}},

		{"refused by readers, and leaves a gate", waits(Trying, 1, triedNow), Event{Kind: Refused, Gated: true}, push, Resting, Action{Probe, hintEvery - LastProbe/2, NoJitter}},
		{"refused by readers, and has a gate: no queue", waits(Trying, 1, triedNow), Event{Kind: Refused, Gated: true}, queue, Resting, Action{Probe, firstProbe, JitterThird}},
		{"refused by readers, and has a gate: no turn", waits(Trying, 1, triedNow), Event{Kind: Refused, Gated: true}, turns, Resting, Action{Probe, firstProbe, JitterThird}},
		{"refused by readers, another's gate stands", waits(Trying, 1, gated), Event{Kind: Refused}, push, Resting, Action{Probe, pushProbe, JitterThird}},
		{"probed: readers, and the gate is not old", waits(Resting, 1, gated), Event{Kind: Probed, Hint: hinted}, push, Resting, Action{Probe, hintEvery / 2, NoJitter}},
		{"refused by readers, which have some time without a gate", waits(Trying, 1, triedNow), Event{Kind: Refused, Phase: true}, push, Resting, Action{Probe, driver.GateAfter, JitterThird}},
		{"refused by readers, another's gate stands, for a short time", waits(Trying, 1, triedNow), Event{Kind: Refused, Phase: true, Left: time.Millisecond}, push, Resting, Action{Probe, time.Millisecond, NoJitter}},
		{"probed: readers, and no gate stands", waits(Resting, 1, gated), Event{Kind: Probed, Phase: true, Hint: hinted}, push, Trying, Action{Do: Try}},
		{"probed: readers, and no gate stands, tried just now", waits(Resting, 1, triedNow), Event{Kind: Probed, Phase: true, Hint: hinted}, push, Resting, Action{Probe, driver.GateAfter, JitterThird}},
		{"probed: readers, and a gate stands", waits(Resting, 1, quiet), Event{Kind: Probed, Phase: true, Gated: true, Hint: hinted}, push, Resting, Action{Probe, pushProbe, JitterThird}},
		{"probed: slots, for one of another slot", waits(Resting, 1, quiet), Event{Kind: Probed, Phase: true, Hint: hinted}, Env{Together: true, Push: true}, Resting, Action{Probe, pushProbe, JitterThird}},
		{"due, the gate is old", waits(Resting, 1, gated, quiet), Event{Kind: Due}, Env{}, Trying, Action{Do: Try}},
		{"due, the gate is not old", waits(Resting, 1, gated), Event{Kind: Due}, Env{}, Resting, Action{Do: Probe}},

		{"a reader of this client has ended", waits(Resting, 1), Event{Kind: Freed}, push, Trying, Action{Do: Try}},
		{"a reader of this client has ended, and others queue in the server", waits(Resting, 1, want), Event{Kind: Freed}, queue, Queued, Action{Do: Queue}},
		{"a reader of this client has ended, an attempt is on its way", waits(Trying, 1), Event{Kind: Freed}, Env{}, Trying, Action{}},
		{"a reader of this client has ended, which has the key again", waits(Resting, 1, holds), Event{Kind: Freed}, Env{}, Resting, Action{}},
		{"releasing, readers wait here", waits(Resting, 1, holds, asked), Event{Kind: Releasing}, others, Resting, Action{Do: Release}},
		{"releasing within the tenure, readers wait here", waits(Resting, 1, holds, early), Event{Kind: Releasing}, others, Resting, Action{Do: HandOff}},
		{"released, readers wait here", waits(Resting, 1, holds), Event{Kind: Ended, Known: true}, others, Resting, Action{Probe, yieldTime, NoJitter}},

		{"fair: a caller after the tenure", waits(None, 0, want, yields), Event{Kind: Join}, fair, Trying, Action{Do: Try}},
		{"fair: refused, the first", waits(Trying, 1), Event{Kind: Refused}, fair, Resting, Action{Probe, firstProbe, JitterThird}},
		{"fair: refused, the first, had it before", waits(Trying, 1, early), Event{Kind: Refused}, fair, Resting, Action{Probe, firstProbe, JitterThird}},
		{"fair: refused, others before", waits(Trying, 1), Event{Kind: Refused, Ahead: 2}, fair, Resting, Action{Probe, 3 * firstProbe, JitterThird}},
		{"fair: refused, others before for a known time", waits(Trying, 1), Event{Kind: Refused, Ahead: 2, Left: time.Millisecond}, fair, Resting, Action{Probe, time.Millisecond, NoJitter}},
		{"fair: refused, very many before", waits(Trying, 1, func(s *State) { s.Backoff.slow() }), Event{Kind: Refused, Ahead: 500}, fair, Resting, Action{Probe, lineProbe, JitterThird}},
		{"fair: refused, others before, the line moves", waits(Trying, 1, farBehind, func(s *State) { s.Backoff.slow() }), Event{Kind: Refused, Ahead: 1}, fair, Resting, Action{Probe, 2 * firstProbe, JitterThird}},
		{"fair: refused, others before, a stream is open", waits(Trying, 1), Event{Kind: Refused, Ahead: 2}, Env{Fair: true, Push: true}, Resting, Action{Probe, pushProbe, JitterThird}},
		{"fair: refused, others before, the server has a queue", waits(Trying, 1), Event{Kind: Refused, Ahead: 1}, Env{Fair: true, Queue: true}, Queued, Action{Do: Queue}},
		{"fair: refused a slot, others before, the server has a queue", waits(Trying, 1), Event{Kind: Refused, Ahead: 1}, Env{Fair: true, Queue: true, Together: true}, Resting, Action{Probe, 2 * firstProbe, JitterThird}},
		{"fair: refused in the server's queue, others before", waits(Queued, 1), Event{Kind: Refused, Ahead: 1}, Env{Fair: true, Queue: true}, Resting, Action{Probe, 2 * firstProbe, JitterThird}},
		{"fair: refused, the first, the server has a queue", waits(Trying, 1), Event{Kind: Refused}, Env{Fair: true, Queue: true}, Queued, Action{Do: Queue}},
		{"fair: refused, others before, turns", waits(Trying, 1), Event{Kind: Refused, Ahead: 1}, Env{Fair: true, Turns: true}, Queued, Action{Queue, queueProbe, JitterThird}},
		{"fair: refused, others before, has the turn", waits(Trying, 1, turn), Event{Kind: Refused, Ahead: 1}, Env{Fair: true, Turns: true}, Resting, Action{Rest, 2 * firstProbe, JitterThird}},
		{"fair: due, others before", waits(Resting, 1, behind), Event{Kind: Due}, fair, Trying, Action{Do: Try}},
		{"fair: due, the first", waits(Resting, 1), Event{Kind: Due}, fair, Resting, Action{Do: Probe}},
		{"fair: due, others before, this client has the key", waits(Resting, 1, behind, holds), Event{Kind: Due}, fair, Resting, Action{Do: Probe}},
		{"fair: placed, the first now", waits(Resting, 1, behind), Event{Kind: Placed}, fair, Resting, Action{Do: Probe}},
		{"fair: placed, the first as before", waits(Resting, 1), Event{Kind: Placed}, fair, Resting, Action{}},
		{"fair: placed, the first now, queued for a turn", waits(Queued, 1, behind), Event{Kind: Placed}, Env{Fair: true, Turns: true}, Queued, Action{Probe, lineProbe, JitterThird}},
		{"fair: placed, the first now, queued in the server", waits(Queued, 1, behind), Event{Kind: Placed}, Env{Fair: true, Queue: true}, Queued, Action{}},
		{"fair: placed, others before", waits(Resting, 1, farBehind), Event{Kind: Placed, Ahead: 1}, fair, Resting, Action{}},
		{"fair: placed, others before, has the turn", waits(Resting, 1, turn), Event{Kind: Placed, Ahead: 1}, Env{Fair: true, Turns: true}, Resting, Action{Rest, 2 * firstProbe, JitterThird}},
		{"fair: placed, the first now, this client has the key", waits(Resting, 1, behind, holds), Event{Kind: Placed}, fair, Resting, Action{}},
		{"fair: woken, the next", waits(Resting, 1, behind, had), Event{Kind: Woken}, Env{Fair: true, Push: true}, Trying, Action{Do: Try}},
		{"fair: woken, others before", waits(Resting, 1, farBehind), Event{Kind: Woken}, Env{Fair: true, Push: true}, Resting, Action{}},
		{"fair: releasing, the first", waits(Resting, 1, holds, want), Event{Kind: Releasing}, Env{Fair: true, First: true}, Resting, Action{Do: HandOff}},
		{"fair: releasing within the tenure, not known to be the first", waits(Resting, 1, holds, early), Event{Kind: Releasing}, fair, Resting, Action{Do: Release}},
		{"fair: releasing a slot, not known to be the first", waits(Resting, 1, hasOne), Event{Kind: Releasing}, Env{Fair: true, Together: true}, Resting, Action{Do: Release}},
		{"fair: released, wanted by another, nobody before", waits(Resting, 1, holds, want), Event{Kind: Ended}, fair, Trying, Action{Do: Try}},
		{"fair: released, others before", waits(Resting, 1, holds, behind), Event{Kind: Ended}, fair, Resting, Action{Probe, 2 * firstProbe, JitterThird}},
		{"fair: released, others before, turns", waits(Resting, 1, holds, behind), Event{Kind: Ended}, Env{Fair: true, Turns: true}, Queued, Action{Queue, queueProbe, JitterThird}},
		{"fair: released, others before, the server has a queue", waits(Resting, 1, holds, behind), Event{Kind: Ended}, Env{Fair: true, Queue: true}, Queued, Action{Do: Queue}},
		{"fair: a slot was released, others before, the server has a queue", waits(Resting, 1, hasOne, hasOne, behind), Event{Kind: Ended}, Env{Fair: true, Queue: true, Together: true}, Resting, Action{Probe, 2 * firstProbe, JitterThird}},
		{"fair: a slot was released, others before", waits(Resting, 1, hasOne, hasOne, behind), Event{Kind: Ended}, Env{Fair: true, Together: true}, Resting, Action{Probe, 2 * firstProbe, JitterThird}},
		{"fair: queued, probed: free, the first", waits(Queued, 1), Event{Kind: Probed, Free: true}, Env{Fair: true, First: true, Turns: true}, Trying, Action{Do: Try}},
		{"fair: queued, probed: free", waits(Queued, 1), Event{Kind: Probed, Free: true}, Env{Fair: true, Turns: true}, Queued, Action{Probe, LastProbe, JitterThird}},
		{"fair: queued, probed: held, the first", waits(Queued, 1), Event{Kind: Probed, Hint: hinted}, Env{Fair: true, First: true, Turns: true}, Queued, Action{Probe, lineProbe, JitterThird}},

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
		{"probed: free, another's hint", waits(Resting, 1), Event{Kind: Probed, Free: true, Hint: hinted}, Env{Client: me}, Trying, Action{Do: Try}},
		{"probed: free, another's hint has stood for long", waits(Resting, 1, stands), Event{Kind: Probed, Free: true, Hint: hinted, Token: 7}, Env{Client: me}, Resting, Action{Probe, yieldTime, NoJitter}},
		{"probed: free, the own hint has stood for long", waits(Resting, 1), Event{Kind: Probed, Free: true, Hint: driver.Hint{Client: me, Left: time.Minute}}, Env{Client: me}, Trying, Action{Do: Try}},
		{"probed: own, free: by force", waits(Resting, 1, holds), Event{Kind: Probed, Free: true}, Env{}, Trying, Action{Do: Try}},
		{"probed: own", waits(Resting, 1, holds, func(s *State) { s.ownProbe = handoff }), Event{Kind: Probed}, Env{}, Resting, Action{Probe, 2 * handoff, NoJitter}},
		{"probed: kept", waits(Resting, 1, quiet), Event{Kind: Probed, Kept: true, Left: time.Second}, hints, Resting, Action{Rest, time.Second, NoJitter}},
		{"probed: kept for long, seen first", waits(Resting, 1, quiet), Event{Kind: Probed, Kept: true, Left: time.Hour}, push, Resting, Action{Rest, firstKeptProbe, JitterThird}},
		{"probed: kept for long, for some seconds", waits(Resting, 1, quiet, keptFor(5*time.Second)), Event{Kind: Probed, Kept: true, Left: time.Hour}, push, Resting, Action{Rest, keptFactor * 5 * time.Second, JitterThird}},
		{"probed: kept for long, for minutes", waits(Resting, 1, quiet, keptFor(5*time.Minute)), Event{Kind: Probed, Kept: true, Left: time.Hour}, push, Resting, Action{Rest, keptProbe, JitterThird}},
		{"probed: kept after the yield time", waits(Resting, 1, yields), Event{Kind: Probed, Kept: true, Left: time.Second}, Env{}, Resting, Action{Rest, time.Second, NoJitter}},
		{"probed: kept, while a release of one's own is on its way", waits(Resting, 1, holds), Event{Kind: Probed, Kept: true, Left: time.Hour}, Env{}, Resting, Action{Probe, handoff, NoJitter}},
		{"probed in the queue: kept", waits(Queued, 1), Event{Kind: Probed, Kept: true, Left: time.Hour, Hint: hinted}, turns, Resting, Action{Rest, firstKeptProbe, JitterThird}},
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

		{"a reader that saw hold after hold for long, turns", waits(Resting, 1, isLate, triedNow), Event{Kind: Probed, Token: 6, Hint: hinted}, late, Resting, Action{Queue, firstProbe, JitterThird}},
		{"a reader that saw hold after hold for long, its hint", waits(Resting, 1, isLate, triedNow), Event{Kind: Probed, Token: 6, Hint: mine}, late, Resting, Action{Queue, nextProbe, JitterThird}},
		{"a reader that saw hold after hold for long, with tickets", waits(Resting, 1, isLate, triedNow), Event{Kind: Probed, Token: 6, Hint: hinted}, Env{Together: true, Late: true, Fair: true}, Resting, Action{Probe, firstProbe, JitterThird}},
		{"a reader that has its turn", waits(Resting, 1, isLate, triedNow, turn), Event{Kind: Probed, Token: 6, Hint: hinted}, late, Resting, Action{Probe, firstProbe, JitterThird}},
		{"a reader that sees one hold for long, turns", waits(Resting, 1, sawHold, triedNow), Event{Kind: Probed, Token: 5, Hint: hinted}, late, Resting, Action{Probe, firstProbe, JitterThird}},
		{"a reader that sees another hold, turns", waits(Resting, 1, sawHold, triedNow), Event{Kind: Probed, Token: 6, Hint: hinted}, late, Resting, Action{Probe, firstProbe, JitterThird}},
		{"a reader's turn", waits(Resting, 1), Event{Kind: Turn}, late, Trying, Action{Do: Try}},
		{"a reader's turn, an attempt is on its way", waits(Trying, 1), Event{Kind: Turn}, late, Trying, Action{}},
		{"free for a reader, another's hint has stood for long, turns", waits(Resting, 1, stands), Event{Kind: Probed, Free: true, Hint: hinted}, late, Trying, Action{Do: Try}},
		{"refused, a reader whose turn has come meanwhile", func() State {
			s := waits(Trying, 1)
			s.Backoff.step = 9
			s.Step(Event{Kind: Turn}, now, late)
			return s
		}(), Event{Kind: Refused}, late, Resting, Action{Probe, firstProbe, JitterThird}},
		{"no turns to be had for a reader", waits(Resting, 1), Event{Kind: NoPlace}, late, Resting, Action{}},
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

// TestLateReader: it asks for a turn when it has seen the key go from hold to hold for long, again if there is none to be
// had, and has no claim to it any more once it has the key.
func TestLateReader(t *testing.T) {
	env := Env{Client: me, Handoff: handoff, Together: true, Late: true}
	s := waits(Resting, 1, triedNow)
	asks := func(token int64, at time.Duration) bool {
		s.asked = at
		return s.Step(Event{Kind: Probed, Token: token, Hint: hinted}, at, env).Do == Queue
	}
	for i, tc := range []struct {
		token int64
		at    time.Duration
		want  bool
	}{
		{5, 0, false}, {5, 2 * longHint, false}, {6, 3 * longHint, false}, {7, 4*longHint - 1, false},
		{7, 4 * longHint, true}, {8, 4*longHint + 1, false}, {9, 5 * longHint, true},
	} {
		if got := asks(tc.token, now+tc.at); got != tc.want {
			t.Errorf("probe %d: asks for a turn: %v, want %v", i, got, tc.want)
		}
	}
	s.Step(Event{Kind: Turn}, now+6*longHint, env)
	s.Waiting = 0
	s.Step(Event{Kind: Granted}, now+6*longHint, env)
	if s.turn || asks(9, now+7*longHint) {
		t.Error("it has the key, and wants or has the turn")
	}
	s = waits(Resting, 1, hasOne, turn)
	if a := s.Step(Event{Kind: Left}, now, env); a.Do != Stop || s.turn {
		t.Errorf("its last caller left, and it has the turn for the slot that it has: %+v", a)
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

// TestSlotsAreLeftToOthers: a program whose callers take slots again at once, without a wait,
// learns now and then whether another wants one, and then leaves what it has released.
func TestSlotsAreLeftToOthers(t *testing.T) {
	env := Env{Client: 1, Handoff: 100 * time.Millisecond, Together: true}
	var s State
	var asked []time.Duration
	for now := time.Second; now < 2*time.Second; now += 10 * time.Millisecond {
		s.Step(Event{Kind: Began}, now, env)
		release := Event{Kind: Ended, Known: s.AsksSlot(now, env)}
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
	if a := s.Step(Event{Kind: Join}, 2*time.Second, env); a.Do != Probe || a.After != yieldTime {
		t.Errorf("a slot that another program wants: %+v", a)
	}
}
