package rowlock

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/rowlock/rowlock/driver"
)

// Leader says who leads: who has a key. See [Client.Observe].
//
// Leaders are exclusive holders. A key that is held with [Shared] or [Slots] is Held too, until
// the last of those holds ends: without an Owner, and with the Token of them all, which
// Info.Token is.
type Leader struct {
	Key string

	// Held reports whether somebody leads. A key that is only kept from others (MinHold)
	// after its release is not held.
	Held bool

	// Owner is whose hold it is (Options.Owner), for people. Where nobody leads Owner, Token
	// and Since are those of the last term that was seen; empty: none was.
	Owner string

	// Token is the term, as the database has it (Info.Token): it never falls. The leader's own
	// lease may have a larger one, up to the next term's: see Lease.Token. A later term whose
	// row has a smaller one gets the number after the last, about a second later: rows of
	// UniqueInsert have the time at which the attempt began, which may have waited in the server, and tokens
	// fall where the server's clock was set back after the key's row was reaped.
	Token int64

	Since time.Time     // when the term began (with Shared or Slots: the oldest hold), by the database's clock; zero: not known
	Left  time.Duration // until the hold ends if it is not renewed; 0 where nobody leads
}

// Observe yields who has key: the state now, and then each change, "nobody has it" among
// them. It is for programs that follow a leader (see [Lead]) without standing for election.
//
//	for leader, err := range locks.Observe(ctx, "report") {
//
// A state that lasted for less than about a second may be left out, and so may be all that
// happens while the body of the loop runs. An older term never follows a newer one: Token never
// falls. What is yielded was true when the database was asked, and may be over: for effects
// that must not be those of an old leader hand the lease's token on.
//
// A failure of the database is yielded as an error beside the last state, and is not the end:
// the first of an outage, and the first that will not pass by itself. When it answers again the
// state is yielded. The sequence ends when ctx ends, without another value; when the client is
// closed, after an error that matches ErrClosed; and at once after ErrInvalid, for a bad key.
// It may be ranged over more than once, and by many: each loop begins with the state now.
//
// All keys that a client observes or waits for share their statements: a read a second, more
// where a hold could end or has just ended, and at most 20 a second together, however many
// loops there are. The client's own holds and the store's stream of releases, if it has one,
// are followed sooner. A loop has no goroutine of its own, and leaves none behind; the stream
// is closed some seconds after the last of them.
func (c *Client) Observe(ctx context.Context, key string) iter.Seq2[Leader, error] {
	return func(yield func(Leader, error) bool) {
		if err := c.checkObserve(ctx, key); err != nil {
			yield(Leader{Key: key}, fmt.Errorf("observe %q: %w", key, err))
			return
		}
		if ctx.Err() != nil {
			return
		}
		closed := fmt.Errorf("observe %q: %w", key, ErrClosed)
		loop, open := c.observers.enter(key)
		if !open {
			yield(Leader{Key: key}, closed)
			return
		}
		defer c.observers.leave(loop)
		for {
			switch {
			case ctx.Err() != nil:
				return
			case c.isClosed():
				yield(loop.last, closed)
				return
			}
			news, tell := c.observers.next(loop)
			if tell {
				if !yield(loop.last, loop.err) {
					return
				}
				continue
			}
			select {
			case <-news:
			case <-ctx.Done():
			case <-c.open.Done():
			}
		}
	}
}

// checkObserve checks the arguments of Observe.
func (c *Client) checkObserve(ctx context.Context, key string) error {
	switch {
	case c == nil:
		return fmt.Errorf("%w: the Client is nil", ErrInvalid)
	case ctx == nil:
		return fmt.Errorf("%w: the context is nil", ErrInvalid)
	}
	return checkKey(key)
}

// observeLoop is one loop over Observe, and what it was told last.
type observeLoop struct {
	key    *observedKey
	from   uint64 // the first probe whose answer is new enough for it
	told   bool   // anything
	outage uint64 // that it was told of and that is not over; 0: none
	last   Leader
	err    error
}

// observers are the keys that loops of Observe follow: each key is probed once for all of
// them. Guarded by Client.mu.
type observers struct {
	c    *Client
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

	leader  Leader        // the state of the newest term
	terms   []storedTerm  // the last ones that were told, as the database has them
	older   storedTerm    // what the last answers said, with a smaller token; zero: they had none
	olderAt time.Duration // when it was first said
	at      time.Duration // when it was told
	freeAt  time.Duration // when it was first told that nobody leads, since somebody did
	failure error         // why the last probe had no answer; nil: it had
	outages uint64        // failures that loops are to be told of
	news    chan struct{} // closed when there is something to tell
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

// enter begins a loop; false: the client is closed.
func (s *observers) enter(name string) (*observeLoop, bool) {
	c := s.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, false
	}
	o := s.keys[name]
	if o == nil {
		o = &observedKey{name: name, leader: Leader{Key: name}, news: make(chan struct{})}
		o.probe.o = o
		if s.keys == nil {
			s.keys = make(map[string]*observedKey)
		}
		s.keys[name] = o
		c.watcher.start()
	}
	o.loops++
	s.soon(o)
	return &observeLoop{key: o, from: o.wanted, last: Leader{Key: name}}, true
}

// leave ends a loop.
func (s *observers) leave(loop *observeLoop) {
	c := s.c
	c.mu.Lock()
	defer c.mu.Unlock()
	o := loop.key
	if o.loops--; o.loops > 0 {
		return
	}
	delete(s.keys, o.name)
	c.prober.drop(&o.probe)
	if len(c.prober.entries) == 0 {
		c.prober.wakeUp() // to end
	}
}

// next notes in loop what is to be yielded next; else news is closed when there may be more.
func (s *observers) next(loop *observeLoop) (news <-chan struct{}, tell bool) {
	c := s.c
	c.mu.Lock()
	defer c.mu.Unlock()
	o := loop.key
	now := o.leader
	changed := now.Held != loop.last.Held || now.Token != loop.last.Token || now.Owner != loop.last.Owner
	switch {
	case o.answered < loop.from:
		return o.news, false
	case o.failure != nil:
		if loop.outage == o.outages {
			return o.news, false
		}
		loop.outage = o.outages
		loop.err = fmt.Errorf("observe %q: %w", o.name, o.failure)
	case loop.told && loop.outage == 0 && !changed:
		return o.news, false
	default:
		loop.told, loop.outage, loop.err = true, 0, nil
	}
	now.Left = max(0, now.Left-(c.now()-o.at))
	loop.last = now
	return nil, true
}

// wake is told that the state of a key may have changed.
func (s *observers) wake(name string) {
	if len(s.keys) == 0 || s.c.closed {
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
			wait = max(0, o.sentAt+observeAtMost-s.c.now())
		}
		s.c.prober.plan(&o.probe, wait)
	}
}

// join adds the keys whose probe is due to those of callers that wait, each key once.
func (s *observers) join(waited []probed, due []*observedKey) []probed {
	if len(s.keys) == 0 {
		return waited
	}
	for i := range waited {
		if o := s.keys[waited[i].k.id.name]; o != nil && o.answered == o.sent {
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
		if len(due) >= s.c.store.Limits.Batch {
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
	s.c.prober.drop(&o.probe)
	o.sent++
	o.sentAt = s.c.now()
}

// answer notes what the probe that was sent last has found, and plans the next.
func (s *observers) answer(o *observedKey, info driver.Info, err error) {
	before := o.answered
	o.answered = o.sent
	if o.note(info, err, s.c.now()) || before < o.wanted && o.wanted <= o.answered {
		close(o.news)
		o.news = make(chan struct{})
	}
	switch {
	case s.keys[o.name] != o || s.c.closed: // nobody observes it any more
	case o.wanted > o.sent:
		s.soon(o)
	case err == nil && !o.leader.Held && o.freeAt > 0 && s.c.now() < o.freeAt+observeNext:
		s.c.prober.plan(&o.probe, observeAtMost)
	case err == nil && info.Held && info.Left < observeEvery: // it may change hands then
		s.c.prober.plan(&o.probe, max(info.Left, observeAtMost))
	default:
		s.c.prober.plan(&o.probe, observeEvery)
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
	after := Leader{
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
