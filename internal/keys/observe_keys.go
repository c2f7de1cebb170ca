package keys

import (
	"context"
	"errors"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/logs"
)

// leading is who has an observed key; its fields are those of Leader.
type leading struct {
	Key   string
	Held  bool
	Owner string
	Token int64
	Since time.Time
	Left  time.Duration
}

// observeLoop is one loop over Observe, and what it was told last.
type observeLoop struct {
	key    *observedKey
	from   uint64 // the first probe whose answer is new enough for it
	told   bool   // anything
	outage uint64 // that it was told of and that is not over; 0: none
	Last   leading
	Err    error
}

// observers are the keys that loops of Observe follow: each key is probed once for all of
// them. Guarded by Table.mu.
type observers struct {
	t    *Table
	keys map[string]*observedKey
}

// observedKey is what is known of a key that is observed.
type observedKey struct {
	name     string
	loops    int
	probe    probeEntry    // in the prober
	sent     uint64        // probes that were sent
	sentAt   time.Duration // the last of them
	answered uint64        // the last one with an answer
	wanted   uint64        // the one for which somebody waits; one that was sent: nobody

	leader  leading       // the state of the newest term
	terms   []storedTerm  // the last ones that were told, as the database has them
	older   storedTerm    // what the last answers said, with a smaller token; zero: they had none
	olderAt time.Duration // when it was first said
	at      time.Duration // when it was told
	freeAt  time.Duration // when it was first told that nobody leads, since somebody did
	failure error         // why the last probe had no answer; nil: it had
	outages uint64        // failures that loops are to be told of
	news    chan struct{} // closed when there is something to tell
	loop    logs.Loop
}

const (
	// observeEvery is the time between two probes of an observed key, where nothing says
	// that its state may change before.
	observeEvery = time.Second

	// observeAtMost is the shortest time between two.
	observeAtMost = 250 * time.Millisecond

	// observeNext is for how long after the end of a hold the next one is looked for as
	// often as that: those who wait for the key have it soon.
	observeNext = 2 * time.Second
)

// Enter begins a loop; false: the client is closed.
func (s *observers) Enter(name string) (*observeLoop, bool) {
	t := s.t
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil, false
	}
	o := s.keys[name]
	if o == nil {
		o = &observedKey{name: name, leader: leading{Key: name}, news: make(chan struct{})}
		o.probe.o = o
		o.loop.Use(t.Report)
		if s.keys == nil {
			s.keys = make(map[string]*observedKey)
		}
		s.keys[name] = o
		t.watcher.start()
	}
	o.loops++
	s.soon(o)
	return &observeLoop{key: o, from: o.wanted, Last: leading{Key: name}}, true
}

// Leave ends a loop.
func (s *observers) Leave(loop *observeLoop) {
	t := s.t
	t.mu.Lock()
	defer t.mu.Unlock()
	o := loop.key
	if o.loops--; o.loops > 0 {
		return
	}
	delete(s.keys, o.name)
	o.loop.Over()
	t.prober.drop(&o.probe)
	if len(t.prober.entries) == 0 {
		t.prober.wakeUp() // to end
	}
}

// Next notes in loop what is to be yielded next; else news is closed when there may be more.
func (s *observers) Next(loop *observeLoop) (news <-chan struct{}, tell bool) {
	t := s.t
	t.mu.Lock()
	defer t.mu.Unlock()
	o := loop.key
	now := o.leader
	changed := now.Held != loop.Last.Held || now.Token != loop.Last.Token || now.Owner != loop.Last.Owner
	switch {
	case o.answered < loop.from:
		return o.news, false
	case o.failure != nil:
		if loop.outage == o.outages {
			return o.news, false
		}
		loop.outage = o.outages
		loop.Err = o.failure
	case loop.told && loop.outage == 0 && !changed:
		return o.news, false
	default:
		loop.told, loop.outage, loop.Err = true, 0, nil
	}
	now.Left = max(0, now.Left-(t.Now()-o.at))
	loop.Last = now
	return nil, true
}

// wake is told that the state of a key may have changed.
func (s *observers) wake(name string) {
	if len(s.keys) == 0 || s.t.closed {
		return
	}
	if o := s.keys[name]; o != nil {
		s.soon(o)
	}
}

// soon plans a probe that is sent from now on.
func (s *observers) soon(o *observedKey) {
	o.wanted = o.sent + 1
	if o.answered == o.sent { // else when the one that is on its way was answered
		wait := time.Duration(0)
		if o.sent > 0 {
			wait = max(0, o.sentAt+observeAtMost-s.t.Now())
		}
		s.t.prober.plan(&o.probe, wait)
	}
}

// join adds the keys whose probe is due to those of callers that wait, each key once.
func (s *observers) join(waited []probed, due []*observedKey) []probed {
	if len(s.keys) == 0 {
		return waited
	}
	for i := range waited {
		if o := s.keys[waited[i].k.id.Name]; o != nil && o.answered == o.sent {
			s.send(o)
			waited[i].o = o
		}
	}
	for _, o := range due {
		if o.answered == o.sent {
			s.send(o)
			waited = append(waited, probed{o: o})
		}
	}
	return waited
}

// rideAlong adds keys that would be due before long to a statement that is sent anyway.
func (s *observers) rideAlong(due []probed, now time.Duration) []probed {
	for _, o := range s.keys {
		if len(due) >= s.t.Store.Limits.Batch {
			break
		}
		if o.probe.index > 0 && o.probe.due <= now+observeEvery/2 {
			s.send(o)
			due = append(due, probed{o: o})
		}
	}
	return due
}

// send notes that a probe is about to be sent.
func (s *observers) send(o *observedKey) {
	s.t.prober.drop(&o.probe)
	o.sent++
	o.sentAt = s.t.Now()
}

// answer notes what the probe that was sent last has found, and plans the next.
func (s *observers) answer(o *observedKey, info driver.Info, err error) {
	before := o.answered
	o.answered = o.sent
	switch {
	case s.keys[o.name] != o: // over
	case err == nil:
		o.loop.Worked()
	case driver.IsLasting(err) && !errors.Is(err, driver.ErrClosed):
		o.loop.Refused(context.Background(), "loop", "observe", "key", o.name, "err", err)
	}
	if o.note(info, err, s.t.Now()) || before < o.wanted && o.wanted <= o.answered {
		close(o.news)
		o.news = make(chan struct{})
	}
	switch {
	case s.keys[o.name] != o || s.t.closed: // nobody observes it any more
	case o.wanted > o.sent:
		s.soon(o)
	case err == nil && !o.leader.Held && o.freeAt > 0 && s.t.Now() < o.freeAt+observeNext:
		s.t.prober.plan(&o.probe, observeAtMost)
	case err == nil && info.Held && info.Left < observeEvery: // it may change hands then
		s.t.prober.plan(&o.probe, max(info.Left, observeAtMost))
	default:
		s.t.prober.plan(&o.probe, observeEvery)
	}
}

// note notes the state of a key, and reports whether there is something to tell.
func (o *observedKey) note(info driver.Info, err error, now time.Duration) (news bool) {
	if err != nil {
		if news = o.failure == nil || driver.IsLasting(err) && !driver.IsLasting(o.failure); news {
			o.failure = err
			o.outages++
		}
		return news
	}
	news = o.failure != nil
	o.failure = nil
	before := o.leader
	after := leading{
		Key: o.name, Held: info.Held && !info.Kept, Owner: info.Owner, Token: info.Token, Since: info.Since, Left: info.Left,
	}
	stored := storedTerm{info.Hold, info.Token}
	gone := info.Token == 0 && !info.Held // the row is, and with it the last term's name
	later := info.Token > before.Token || len(o.terms) == 0
	if !later && !gone && !o.shows(stored) {
		if !o.insists(stored, now) {
			return news // an older term: who answered was behind
		}
		if later = after.Held; later {
			after.Token = before.Token + 1
		}
	} else {
		o.older = storedTerm{}
	}
	switch {
	case later:
		o.terms = append(o.terms[max(0, len(o.terms)-maxTerms+1):], stored)
	case gone, !after.Held && !o.shows(stored):
		after = before
		after.Held = false
	default:
		after.Token = before.Token
	}
	if info.InPhase() {
		after.Owner = "" // there may be many, who come and go
	}
	if !after.Held {
		after.Left = 0
	}
	if before.Held && !after.Held {
		o.freeAt = now
	}
	o.leader, o.at = after, now
	return news || after.Held != before.Held || after.Token != before.Token || after.Owner != before.Owner
}
