package key

import (
	"testing"
	"time"
)

// inLine is a Line in mode in which so many callers wait.
func inLine(m Mode, n int, with ...func(*Line)) Line {
	s := Line{Waits: Waits{Mode: m, Waiting: n, planned: Probe, asked: now - time.Second}, stands: now - time.Second}
	for _, f := range with {
		f(&s)
	}
	return s
}

// The parts of a Line.
func lineHolds(s *Line)   { s.Held, s.Since = 1, now-time.Minute }
func lineEarly(s *Line)   { s.Held, s.Since = 1, now-handoff/10 }
func lineNew(s *Line)     { s.Held, s.Since, s.unserved = 1, now-handoff*9/10, 1 }
func lineBeside(s *Line)  { s.Held = 1 }
func others(s *Line)      { s.Standing = 3 }
func first(s *Line)       { s.Place, s.Standing = 1, 3 }
func third(s *Line)       { s.Place, s.Standing = 3, 3 }
func plansTry(s *Line)    { s.planned = Try }
func stale2(s *Line)      { s.asked = now - 3*time.Second }
func freeForLong(s *Line) { s.freeAt = now - 3*time.Second }
func keptNow(s *Line)     { s.keptFrom, s.keptUntil = now, now+time.Hour }
func lineUnsure(s *Line)  { s.unsure = true }
func ends(s *Line)        { s.changed = true }

// TestLine: every row of the table in line.go.
func TestLine(t *testing.T) {
	plain, together, fair := Env{Handoff: handoff}, Env{Handoff: handoff, Together: true}, Env{Handoff: handoff, Fair: true}
	withOthers := Env{Handoff: handoff, Others: true}
	for _, c := range []struct {
		name  string
		from  Line
		event Event
		env   Env
		mode  Mode
		do    Do
		least time.Duration
		most  time.Duration // of After, without its jitter; 0: at once
	}{
		{"Join, this client has the key", inLine(None, 0, lineHolds), Event{Kind: Join}, plain, Resting, Probe, handoff, handoff},
		{"Join", inLine(None, 0), Event{Kind: Join}, plain, Trying, Try, 0, 0},
		{"Join, this client has it, together", inLine(None, 0, lineBeside), Event{Kind: Join}, together, Trying, Try, 0, 0},
		{"any Join", inLine(Resting, 1, first), Event{Kind: Join}, plain, Resting, Nothing, 0, 0},
		{"Granted, others wait here", inLine(Trying, 2, lineHolds), Event{Kind: Granted, Served: 1}, plain, Resting, Probe, handoff, handoff},
		{"Granted, others wait here, together", inLine(Trying, 2, lineBeside), Event{Kind: Granted}, together, Trying, Try, 0, 0},
		{"Granted to the last", inLine(Trying, 2, lineHolds), Event{Kind: Granted, Served: 2}, plain, None, Nothing, 0, 0},
		{"Refused, the store is not sure", inLine(Trying, 1), Event{Kind: Refused, Pinned: true, Apart: true}, plain, Trying, Try, 0, 0},
		{"Refused, it has been passed the key", inLine(Trying, 1, first), Event{Kind: Refused, Place: 1, Stands: true}, plain, Resting, Probe, 0, 0},
		{"Refused, a hold of this client ended meanwhile", inLine(Trying, 1, first, ends), Event{Kind: Refused, Place: 1}, plain, Resting, Probe, 0, 0},
		{"Refused, it does not stand", inLine(Trying, 1), Event{Kind: Refused}, plain, Resting, Try, fullPause, fullPause},
		{"Refused", inLine(Trying, 1), Event{Kind: Refused, Place: 1, Standing: 1}, plain, Resting, Probe, firstPace, lastPace},
		{"Refused, behind others", inLine(Trying, 1), Event{Kind: Refused, Place: 3, Standing: 3}, plain, Resting, Probe, 2 * firstPace, farPace},
		{"Refused, the hold is over soon", inLine(Trying, 1), Event{Kind: Refused, Place: 1, Left: time.Millisecond}, plain, Resting, Probe, time.Millisecond, time.Millisecond},
		{"Refused, pinned", inLine(Trying, 1), Event{Kind: Refused, Place: 1, Pinned: true}, plain, Resting, Probe, pinnedPace, pinnedPace},
		{"Failed, it stands", inLine(Trying, 1, first), Event{Kind: Failed}, plain, Resting, Probe, firstRetry, firstRetry},
		{"Failed", inLine(Trying, 1), Event{Kind: Failed}, plain, Resting, Try, firstRetry, firstRetry},
		{"Again", inLine(Resting, 1), Event{Kind: Again}, plain, Trying, Try, 0, 0},
		{"Due, planned as a try", inLine(Resting, 1, plansTry), Event{Kind: Due}, plain, Trying, Try, 0, 0},
		{"Due, the entry is to be refreshed", inLine(Resting, 1, first, stale2), Event{Kind: Due}, plain, Trying, Try, 0, 0},
		{"Due, a look must tell what became of an attempt", inLine(Resting, 1, first, stale2, lineUnsure), Event{Kind: Due}, plain, Resting, Probe, 0, 0},
		{"Due, kept: it is not refreshed", inLine(Resting, 1, first, stale2, keptNow), Event{Kind: Due}, plain, Resting, Probe, 0, 0},
		{"Due", inLine(Resting, 1, first), Event{Kind: Due}, plain, Resting, Probe, 0, 0},
		{"Turn", inLine(Resting, 1, first), Event{Kind: Turn}, plain, Resting, Probe, 0, 0},
		{"Turn, nobody waits", inLine(None, 0), Event{Kind: Turn}, plain, None, EndTurn, 0, 0},
		{"Turn, of the holder", inLine(None, 0, lineHolds), Event{Kind: Turn}, plain, None, Nothing, 0, 0},
		{"Turn, on its way", inLine(Trying, 1, first), Event{Kind: Turn}, plain, Trying, Nothing, 0, 0},
		{"Probed: this client has the key", inLine(Resting, 1, lineHolds), Event{Kind: Probed, Standing: 2}, plain, Resting, Probe, handoff, handoff},
		{"Probed: this client had the key", inLine(Resting, 1, lineHolds), Event{Kind: Probed, Free: true}, plain, Trying, Try, 0, 0},
		{"Probed: kept", inLine(Resting, 1, first), Event{Kind: Probed, Place: 1, Kept: true, Left: time.Hour}, plain, Resting, Probe, firstKeptProbe, firstKeptProbe},
		{"Probed: kept, soon over", inLine(Resting, 1, first), Event{Kind: Probed, Place: 1, Kept: true, Left: time.Second}, plain, Resting, Probe, time.Second, time.Second},
		{"Probed: kept, it does not stand", inLine(Resting, 1, first), Event{Kind: Probed, Kept: true, Left: time.Second}, plain, Resting, Probe, time.Second, time.Second},
		{"Probed: pinned", inLine(Resting, 1, first), Event{Kind: Probed, Place: 1, Free: true, Pinned: true}, plain, Resting, Probe, pinnedPace, pinnedPace},
		{"Probed: free, first", inLine(Resting, 1, first), Event{Kind: Probed, Place: 1, Free: true}, plain, Trying, Try, 0, 0},
		{"Probed: free, together", inLine(Resting, 1, third), Event{Kind: Probed, Place: 3, Free: true}, together, Trying, Try, 0, 0},
		{"Probed: free, behind others", inLine(Resting, 1, third), Event{Kind: Probed, Place: 3, Standing: 3, Free: true}, plain, Resting, Probe, 2 * firstPace, farPace},
		{"Probed: free for long, behind others", inLine(Resting, 1, third, freeForLong), Event{Kind: Probed, Place: 3, Free: true}, plain, Trying, Try, 0, 0},
		{"Probed: it does not stand any more", inLine(Resting, 1, first), Event{Kind: Probed}, plain, Trying, Try, 0, 0},
		{"Probed: the line was full", inLine(Resting, 1), Event{Kind: Probed, Standing: 64}, plain, Resting, Try, fullPause, fullPause},
		{"Probed", inLine(Resting, 1, first), Event{Kind: Probed, Place: 1, Standing: 1, Age: time.Second}, plain, Resting, Probe, firstPace, lastPace},
		{"ProbeFailed", inLine(Resting, 1, first), Event{Kind: ProbeFailed}, plain, Resting, Probe, firstRetry, firstRetry},
		{"ProbeFailed, and will again", inLine(Resting, 1, first), Event{Kind: ProbeFailed, Lasting: true}, plain, Trying, Try, 0, 0},
		{"Freed, it does not stand", inLine(Resting, 1), Event{Kind: Freed}, plain, Trying, Try, 0, 0},
		{"Freed", inLine(Resting, 1, third), Event{Kind: Freed}, plain, Resting, Probe, 0, 0},
		{"Freed, this client has the key", inLine(Resting, 1, lineHolds), Event{Kind: Freed}, plain, Resting, Nothing, 0, 0},
		{"Releasing, together", inLine(Resting, 1, lineBeside, others), Event{Kind: Releasing}, together, Resting, HandOff, 0, 0},
		{"Releasing, nobody stands", inLine(Resting, 1, lineHolds), Event{Kind: Releasing}, plain, Resting, HandOff, 0, 0},
		{"Releasing, within its part of the tenure", inLine(Resting, 1, lineEarly, others), Event{Kind: Releasing}, plain, Resting, HandOff, 0, 0},
		{"Releasing, a caller has not had it yet", inLine(Resting, 1, lineNew, others), Event{Kind: Releasing}, plain, Resting, HandOff, 0, 0},
		{"Releasing, the tenure is over", inLine(Resting, 1, lineHolds, others), Event{Kind: Releasing}, plain, Resting, Release, 0, 0},
		{"Releasing, callers here want it in another mode", inLine(Resting, 1, lineHolds), Event{Kind: Releasing}, withOthers, Resting, Release, 0, 0},
		{"Releasing, Fair", inLine(Resting, 1, lineHolds), Event{Kind: Releasing}, fair, Resting, Release, 0, 0},
		{"Releasing, nobody waits", inLine(None, 0, lineHolds), Event{Kind: Releasing}, plain, None, Release, 0, 0},
		{"Ended, the next entry stands", inLine(Resting, 1, lineHolds), Event{Kind: Ended, Stands: true, Place: 2, Standing: 2}, plain, Resting, Probe, 2 * firstPace, farPace},
		{"Ended, together, it stands", inLine(Resting, 1, lineBeside, first), Event{Kind: Ended}, together, Resting, Probe, 0, 0},
		{"Ended", inLine(Resting, 1, lineHolds), Event{Kind: Ended}, plain, Trying, Try, 0, 0},
		{"Ended, nobody waits", inLine(None, 0, lineHolds), Event{Kind: Ended}, plain, None, Nothing, 0, 0},
		{"Left, nobody waits any more", inLine(Resting, 1, first), Event{Kind: Left}, plain, None, Stop, 0, 0},
		{"Left, others wait", inLine(Resting, 2, first), Event{Kind: Left}, plain, Resting, Nothing, 0, 0},
	} {
		s := c.from
		a := s.Step(c.event, now, c.env)
		if s.Mode != c.mode || a.Do != c.do {
			t.Errorf("%s: mode %v, do %v, want %v, %v", c.name, s.Mode, a.Do, c.mode, c.do)
		}
		if a.After < c.least || a.After > c.most {
			t.Errorf("%s: after %v, want %v to %v", c.name, a.After, c.least, c.most)
		}
	}
}

// TestClaimOfALine: a claim outlasts the looks of its entry, at every place and however slow the server is.
func TestClaimOfALine(t *testing.T) {
	for place := 1; place <= 64; place++ {
		for _, slow := range []time.Duration{0, time.Millisecond, time.Second, 5 * time.Second} {
			s := inLine(Resting, 1, func(s *Line) { s.Place, s.Trip, s.began = place, slow, 1 })
			claim := s.Claim(slow)
			pace, _ := s.pace(now, Env{})
			if looks := pace * 4 / 3; claim < time.Second || claim < looks+slow || claim < 6*slow {
				t.Errorf("place %d, statements of %v: a claim of %v, and looks every %v", place, slow, claim, looks)
			}
		}
	}
}

// TestTheLongerItWaits: an entry lives longer, and is refreshed more seldom, the longer its client waits.
func TestTheLongerItWaits(t *testing.T) {
	s := inLine(Resting, 1, first)
	refreshes, at := 0, now
	for s.stands = now; at < now+time.Hour; at += time.Second {
		if s.refreshes(at) {
			refreshes++
			if s.asked+s.EntryTime(s.asked) <= at {
				t.Errorf("after %v the entry is over before it is refreshed", at-now)
			}
			s.asked = at
		}
	}
	if refreshes > 200 {
		t.Errorf("%d refreshes in an hour", refreshes)
	}
}

// TestPaceTowardsTheTurn: a program looks when the key should be passed to it, or half a turn before, if the server can wake the first
// of the line; also after the answer to a refresh, which does not say since when the present hold lasts.
func TestPaceTowardsTheTurn(t *testing.T) {
	const turn = 30 * time.Millisecond
	at := func(place int, age time.Duration) Line {
		return inLine(Resting, 1, func(s *Line) { s.Place, s.turn, s.began = place, turn, now-age })
	}
	second := at(2, 10*time.Millisecond)
	for wakes, want := range map[bool]time.Duration{true: 3*turn/2 - 10*time.Millisecond, false: 2*turn - 10*time.Millisecond} {
		if d, _ := second.pace(now, Env{Wakes: wakes}); d != want {
			t.Errorf("the server wakes the first: %v: the second of the line looks after %v, want %v", wakes, d, want)
		}
	}
	far := at(27, 800*time.Millisecond) // the hold that it saw is over for long
	far.Mode = Trying
	if a := far.Step(Event{Kind: Refused, Place: 10}, now, Env{}); a.Do != Probe || a.After > 8*turn || a.After < 4*turn {
		t.Errorf("after a refresh at place 10 it looks after %v, want at most 8 turns", a.After)
	}
	own := inLine(Resting, 1, func(s *Line) { s.Held, s.Since, s.turn = 1, now-2*turn, time.Millisecond })
	if a := own.Step(Event{Kind: Ended, Stands: true, Place: 1}, now, Env{}); a.Do != Probe || a.After < turn {
		t.Errorf("after a turn of its own, of %v, it looks after %v", 2*turn, a.After)
	}
}
