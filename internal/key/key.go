package key

import (
	"time"

	"github.com/rowlock/rowlock/driver"
)

// State is what a client knows of one key. The zero value is a key of which it knows
// nothing.
type State struct {
	Mode    Mode
	Waiting int // callers that wait here
	Held    int // grants of this client, with those whose release was not answered yet

	Since time.Duration // when the tenure began: this client got the key from another; 0: none
	Pace  Pace
	Apart bool // the attempt goes without keys that are not pinned

	wanted  wanted
	planned Do            // Resting: Try or Look
	pausing bool          // Resting, to leave the key to another
	until   time.Duration // of the pause
	asked   time.Duration // the last attempt that left or renewed the hint
	own     time.Duration // the distance of looks at a key of one's own
	ownAt   time.Duration // Resting: when the next of them is due
	asking  bool          // Resting: it is on its way
	free    bool          // Trying, after a look that found the key free
	turn    bool          // it is this client's turn in the server's queue
	behind  bool          // the turn had to be waited for: who had it before may be behind now
	went    time.Duration // when the last tenure ended
	window  time.Duration // of this tenure: how long it lasts though another wants the key
	callers int           // that waited here when the tenure began, and have not had the key since
	seen    seen          // Queued: what the last look saw
	ownPush bool          // the push of this client's own release is still to come
	last    bool          // this client had the key before the present holder, as far as pushes tell
}

// Mode is what goes on for a key.
type Mode uint8

const (
	None    Mode = iota
	Trying       // an attempt is on its way
	Resting      // something is planned
	Queued       // in the server's own queue
)

// wanted is what is known of another client's hint.
type wanted struct {
	by    uint32
	until time.Duration // when it ends, unless renewed
	at    time.Duration // when this was learned; 0: never
	vain  int           // pauses in which nobody came
}

// seen is a free key that a look saw.
type seen struct {
	free  bool
	token int64 // of the last grant
}

// Env is what the machine needs to know of its client.
type Env struct {
	Client  uint32
	Handoff time.Duration
	Queue   bool // the store has a queue in the server, which grants
	Turns   bool // the store has a queue in the server, which says whose turn it is
	Push    bool // a stream tells of releases
	Hints   bool // this key's hint may be renewed: the client does so for a bounded number
}

// Event is what happens to a key. Only the fields that belong to its kind are set.
type Event struct {
	Kind    Kind
	Left    time.Duration // Refused, Looked held: until the key is free by itself; 0: not known
	Pinned  bool          // Refused, Looked held
	Apart   bool          // Refused: the store is not sure; the key is to go again without others
	Hint    driver.Hint   // Looked, Ended
	Known   bool          // Ended, Granted: Hint is what the database has
	Free    bool          // Looked
	Token   int64         // Looked: of the last grant
	Lasting bool          // Failed, LookFailed: it will fail again
	Silent  bool          // Failed: the connection was dead
	Took    time.Duration // Failed
	Lost    bool          // Ended: not by a release
	Waited  bool          // Turn: another client had it
}

// Kind is the kind of an event.
type Kind uint8

const (
	Join       Kind = iota // a caller begins to wait
	Left                   // a caller gave up, or was told
	Began                  // a grant of this client has begun
	Granted                // the attempt was granted
	Refused                // the attempt was refused
	Failed                 // the attempt was not answered
	Again                  // the next caller is to hear the same from an attempt of its own
	NoPlace                // the server's queue has no place
	Turn                   // the turn of this client has come
	Due                    // what was planned is due
	Looked                 // the database was asked for the key's state
	LookFailed             // and did not answer
	Woken                  // the stream says that the key was released
	Releasing              // a grant of this client is being released: what becomes of it?
	Pushing                // its release is about to be sent, and a live stream will tell of it
	Ended                  // a grant of this client has ended, and its release was answered
	Stream                 // the stream has opened or ended
)

// Do is what is to be done.
type Do uint8

const (
	Nothing Do = iota
	Try        // send an attempt for the first caller, at once or after a while
	Look       // ask for the key's state
	Queue      // wait in the server's queue; After: when to look meanwhile, 0: not
	Pass       // pass the grant to the first caller; the look that is planned comes with it
	Back       // release the grant to the database
	Stop       // nobody waits: withdraw the attempt, leave the queue, plan nothing
	EndTurn    // the turn is the next one's
)

// Action is what a step asks for.
type Action struct {
	Do     Do
	After  time.Duration // 0: at once
	Spread Spread        // of After, so that programs do not march in step
}

// Spread says how a time is drawn.
type Spread uint8

const (
	Exact  Spread = iota
	Third         // from 2/3 to 4/3
	Within        // from 0 to the time
)

const (
	// pause is how long a client leaves a key to another that wants it: longer than the
	// longest distance of two looks.
	pause = LastProbe * 3 / 2

	// vainPauses is after how many pauses in which nobody came a hint does not count.
	vainPauses = 2

	// ownLookMost is the longest distance of looks at a key of one's own: an operator may
	// have freed it by force.
	ownLookMost = time.Second

	// wakeSpread is what the client that had the key last leaves the others when all are
	// woken: two that are a little faster than the rest would pass it to each other for ever.
	wakeSpread = 2 * time.Millisecond

	// wakeCourtesy is the most that a client leaves those that have waited for longer; it is
	// less by this part of its own wait.
	wakeCourtesy = 3 * time.Millisecond
	courtesyPart = 333

	// queueLook is how often a client looks at a key that it waits for in the server's
	// queue: the one whose turn it is may stand still, or its hint may have ended.
	queueLook = hintEvery

	// hintEvery is the age at which a client's own hint is renewed.
	hintEvery = driver.HintTime / 2
)

// Step moves the state by what has happened, and says what to do about it.
func (s *State) Step(e Event, now time.Duration, env Env) Action {
	switch e.Kind {
	case Join:
		s.Waiting++
		return s.join(now, env)
	case Left:
		if s.Waiting--; s.Waiting == 0 {
			return s.stop()
		}
	case Began:
		s.Held++
		if s.Since == 0 {
			s.begin(now, env)
		}
		if e.Known {
			s.learn(e.Hint, now, env)
		}
	case Granted:
		if s.pausing && !env.Queue {
			s.wanted.vain++ // nobody came
		}
		s.pausing, s.ownPush, s.last, s.own = false, false, true, 0
		s.Pace, s.Apart = Pace{}, false
		s.Mode = None
		if s.Waiting > 0 {
			return s.lookOwn(now, env)
		}
	case Refused:
		return s.refused(e, now, env)
	case Failed:
		s.Apart = false
		return s.plan(Try, s.Pace.failed(e.Silent, e.Took), Third)
	case Again:
		s.Pace = Pace{}
		return s.try(now)
	case NoPlace:
		if s.Mode != Queued {
			break // it will be asked for again
		}
		s.Mode = None
		if s.pausing {
			return s.plan(Try, max(s.until-now, 0), Exact)
		}
		return s.look(env)
	case Turn:
		if s.Waiting == 0 {
			return Action{Do: EndTurn} // too late
		}
		s.turn, s.behind = true, e.Waited
		if s.Mode == Queued {
			return s.try(now)
		}
	case Due:
		switch s.Mode {
		case Queued:
			return Action{Do: Look}
		case Resting:
		default:
			return Action{}
		}
		if s.planned == Try || s.Held == 0 && env.Hints && now-s.asked >= hintEvery {
			return s.try(now)
		}
		s.asking = s.Held > 0
		return Action{Do: Look}
	case Looked, LookFailed:
		if s.Mode == Queued && !env.Turns {
			break // an attempt is on its way
		}
		if e.Kind == Looked {
			return s.looked(e, now, env)
		}
		switch {
		case s.Mode == Queued:
			return Action{Do: Look, After: queueLook, Spread: Third}
		case !s.resting():
		case e.Lasting:
			return s.try(now)
		default:
			return s.plan(Look, s.Pace.failed(false, 0), Third)
		}
	case Woken:
		return s.woken(now, env)
	case Releasing:
		return s.releasing(now, env)
	case Pushing:
		s.ownPush = env.Push
	case Ended:
		s.Held--
		if e.Known {
			s.learn(e.Hint, now, env)
		}
		return s.ended(e, now, env)
	case Stream:
		s.ownPush = false
		if s.Mode == Resting && s.Held == 0 {
			return s.plan(Look, FirstProbe, Within) // what was freed before it opened
		}
	}
	return Action{}
}

// Planned is what is planned in Resting: Try or Look.
func (s *State) Planned() Do { return s.planned }

// Knows reports whether the state is worth keeping though nobody waits.
func (s *State) Knows(now time.Duration) bool {
	return s.Held > 0 || s.Waiting > 0 || s.other(now) || s.pausing && now < s.until
}

// Contested reports whether another client is known to want the key.
func (s *State) Contested(now time.Duration) bool { return s.other(now) }

func (s *State) join(now time.Duration, env Env) Action {
	switch {
	case s.Mode != None:
		return Action{}
	case s.Held > 0:
		return s.lookOwn(now, env)
	case s.pausing && now < s.until:
		return s.yield(now, env)
	}
	return s.try(now)
}

// other reports whether another client wants the key, as far as is known.
func (s *State) other(now time.Duration) bool {
	return s.wanted.by != 0 && now < s.wanted.until && s.wanted.vain < vainPauses
}

// wantedNow reports whether another client waits: its hint says so, or it had its turn
// before this one and may wait again.
func (s *State) wantedNow(now time.Duration) bool { return s.other(now) || s.turn && s.behind }

// learn notes whose hint stands.
func (s *State) learn(h driver.Hint, now time.Duration, env Env) {
	if h.Client == env.Client {
		h = driver.Hint{}
	}
	w := wanted{by: h.Client, until: now + h.Left, at: max(now, 1)}
	if w.by == s.wanted.by && w.until < s.wanted.until+hintEvery/2 {
		w.vain = s.wanted.vain // the same hint, not renewed
	}
	s.wanted = w
}

// pauseNow leaves the key to another that wants it.
func (s *State) pauseNow(now time.Duration) {
	s.pausing, s.until = true, now+pause
	s.tenureEnds(now)
}

// begin begins a tenure: this client got the key from another.
func (s *State) begin(now time.Duration, env Env) {
	s.Since, s.window, s.callers = max(now, 1), env.Handoff, s.Waiting
	if s.went > 0 && env.Turns {
		// The others had it for so long meanwhile: so many of them wait.
		s.window = env.Handoff / (1 + (now-s.went)/env.Handoff)
	}
}

func (s *State) tenureEnds(now time.Duration) {
	if s.Since > 0 {
		s.Since, s.went = 0, now
	}
}

// yield waits for the end of the pause, or for the turn of this client.
func (s *State) yield(now time.Duration, env Env) Action {
	if env.Queue || env.Turns {
		return s.queue(env) // at its end: that is fair
	}
	return s.plan(Try, s.until-now, Exact)
}

func (s *State) try(now time.Duration) Action {
	s.Mode, s.asked = Trying, now
	return Action{Do: Try}
}

// plan rests until something is due.
func (s *State) plan(do Do, after time.Duration, spread Spread) Action {
	s.Mode, s.planned, s.asking, s.ownAt = Resting, do, false, 0
	return Action{Do: do, After: after, Spread: spread}
}

// look plans a look at a key that another has.
func (s *State) look(env Env) Action {
	d, spread := s.Pace.next(env.Push)
	return s.plan(Look, d, spread)
}

// queue waits in the server's queue.
func (s *State) queue(env Env) Action {
	s.Mode, s.planned, s.turn, s.seen = Queued, Look, false, seen{}
	if env.Turns {
		return Action{Do: Queue, After: queueLook, Spread: Third}
	}
	return Action{Do: Queue}
}

// lookOwn plans a look at a key that this client has: whether another wants it.
func (s *State) lookOwn(now time.Duration, env Env) Action {
	first := max(env.Handoff, LastProbe/2)
	if env.Push && !s.knows(now, env) {
		first = first * 3 / 2 // a release comes before, most often, and tells the same
	}
	s.own = min(max(2*s.own, first), ownLookMost)
	if s.wantedNow(now) { // which is all that a look could tell
		s.own = ownLookMost
	}
	a := s.plan(Look, s.own, Exact)
	s.ownAt = now + s.own
	return a
}

func (s *State) resting() bool { return s.Mode == Resting && s.Waiting > 0 }

func (s *State) stop() Action {
	s.Mode, s.free, s.Apart = None, false, false
	s.turn = s.turn && s.Held > 0 // until the key is free again
	s.Pace = Pace{}
	return Action{Do: Stop}
}

// refused: another has the key.
func (s *State) refused(e Event, now time.Duration, env Env) Action {
	tried := s.Mode == Trying
	if s.Apart = e.Apart; s.Apart {
		return s.try(now)
	}
	s.othersTurn(now)
	s.behind = s.behind || s.turn // who has the key waits for it again, maybe
	if s.free {
		s.Pace.outrun()
	}
	s.free = false
	s.Pace.held(e.Left, e.Pinned)
	if tried && !e.Pinned && (env.Queue || env.Turns && !s.turn) {
		return s.queue(env)
	}
	return s.look(env)
}

// othersTurn: another client has the key, which ends the tenure of this one.
func (s *State) othersTurn(now time.Duration) {
	s.tenureEnds(now)
	s.pausing, s.wanted = false, wanted{}
}

func (s *State) looked(e Event, now time.Duration, env Env) Action {
	switch {
	case s.Mode == Queued && s.Waiting > 0:
		return s.lookedQueued(e, now, env)
	case !s.resting():
		return Action{}
	case e.Free:
		s.free = true
		return s.try(now)
	case s.Held > 0:
		s.learn(e.Hint, now, env)
		return s.lookOwn(now, env)
	}
	s.othersTurn(now)
	s.Pace.held(e.Left, e.Pinned)
	return s.look(env)
}

// lookedQueued: a key that is free is about to be taken by the client whose turn it is. Who
// tried too would get it out of turn, and the other would find it by probes when it is free
// again. So it is tried where a second look finds it as it was: nobody takes it.
func (s *State) lookedQueued(e Event, now time.Duration, env Env) Action {
	last := s.seen
	s.seen = seen{}
	switch {
	case e.Free && last.free && last.token == e.Token:
		return s.try(now)
	case e.Free:
		s.seen = seen{free: true, token: e.Token}
		return Action{Do: Look, After: LastProbe, Spread: Third}
	case e.Hint.Client == 0 || e.Hint.Client == env.Client && e.Hint.Left < hintEvery:
		return s.try(now) // nobody's hint stands, or not for long
	}
	return Action{Do: Look, After: queueLook, Spread: Third}
}

func (s *State) woken(now time.Duration, env Env) Action {
	switch {
	case s.ownPush:
		s.ownPush = false
	case s.Held > 0 || !s.resting():
	case s.last:
		s.last, s.pausing = false, false
		return s.plan(Try, wakeSpread, Within)
	default:
		s.pausing = false
		if d := s.courtesy(now); d > 0 {
			return s.plan(Try, d, Exact)
		}
		return s.goOn(now, env)
	}
	return Action{}
}

// courtesy is what this client leaves those that have waited for longer, when all are
// woken at once.
func (s *State) courtesy(now time.Duration) time.Duration {
	if s.went == 0 {
		return 0
	}
	return max(0, wakeCourtesy-(now-s.went)/courtesyPart)
}

// goOn tries now, unless others stand in the server's queue: the try would be refused.
func (s *State) goOn(now time.Duration, env Env) Action {
	if (env.Queue || env.Turns && !s.turn) && s.other(now) {
		return s.queue(env)
	}
	return s.try(now)
}

// releasing says whether the grant may pass to a caller here.
func (s *State) releasing(now time.Duration, env Env) Action {
	if s.resting() && (s.young(now, env) || s.knows(now, env) && !s.wantedNow(now)) {
		return Action{Do: Pass}
	}
	return Action{Do: Back}
}

// knows reports whether it was asked just now whether another wants the key.
func (s *State) knows(now time.Duration, env Env) bool {
	return s.wanted.at > 0 && now-s.wanted.at <= 2*env.Handoff
}

// young reports whether the tenure goes on though another wants the key: for the window,
// and until each caller that waited here when it began has had the key, if that is not
// longer than Handoff.
func (s *State) young(now time.Duration, env Env) bool {
	age := now - s.Since
	return age < s.window || s.callers > 0 && age < env.Handoff
}

// Passed: the grant went to the next caller here, which the state counts no more. It says
// when to look at the key next: each caller's hold puts off no look, however short it is.
func (s *State) Passed(now time.Duration, env Env) Action {
	s.callers--
	if s.Waiting--; s.Waiting == 0 {
		return s.stop()
	}
	s.own = 0
	if s.asking || s.planned == Look && s.ownAt > 0 && s.ownAt <= now+env.Handoff {
		return Action{}
	}
	return s.lookOwn(now, env)
}

func (s *State) ended(e Event, now time.Duration, env Env) Action {
	switch {
	case s.Held > 0:
	case s.Waiting == 0: // one that comes at once goes on with the tenure
		if s.wantedNow(now) && (env.Turns || now-s.Since >= 2*env.Handoff) {
			s.pauseNow(now)
		}
		s.turn = false
		return Action{Do: EndTurn}
	case s.Mode != Resting:
	case e.Lost:
		return s.goOn(now, env)
	case s.wantedNow(now) && !s.young(now, env):
		s.pauseNow(now)
		return s.yield(now, env)
	default:
		return s.try(now)
	}
	return Action{}
}
