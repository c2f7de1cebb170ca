package rowlock

import (
	"errors"
	"math/rand/v2"
	"time"

	"github.com/rowlock/rowlock/internal/grant"
)

// Whose turn it is among programs. Callers of one client are served in their
// order; programs that probe find a key free only if the one that had it leaves it
// alone for a moment. So a client counts for how long it has had a key in a row,
// and then leaves others their turn: while callers of its own wait, and when a
// caller takes the key again right after its release.

// series is what a client knows of the holds of a key that it had in a row, and of
// others that want it. It lives in the queue, with the lease, or in recent.
type series struct {
	since     time.Duration // when the series began; 0: none
	contested time.Duration // until then others are taken to want the key
	around    time.Duration // when the key was last left alone for long, to see whether others want it
	pause     time.Duration // how long after that to do so again; 0: never done
	own       bool          // the push of this client's own release is still to come
	last      bool          // this client had the key before the present holder, as far as pushes tell
}

// others notes that another program has the key. Its turn ends the series.
func (s *series) others(now time.Duration) {
	s.since, s.contested, s.pause = 0, now+contested, 0
}

const (
	// lookAround is how often a client that knows of no others leaves them time to take
	// the key: first after firstLookAround, then after twice as long each time that
	// nobody came. If it finds the key free somebody may have come and gone.
	firstLookAround = 150 * time.Millisecond
	lookAround      = 1500 * time.Millisecond

	// The same for a client of which no other caller waits. Each costs a program that is
	// alone a tenth of a second.
	firstLoneLookAround = time.Second
	loneLookAround      = 6 * time.Second

	// pushTurn is for how long a client leaves the key to others that are woken by its
	// release, unless it hears of theirs: it sends nothing for a race that it would lose.
	// If it finds the key free after all, nobody wants it any more.
	pushTurn = 100 * time.Millisecond

	// contested is for how long a hold of another program says that others want the key.
	contested = 10 * time.Second

	// atOnce is how soon after its release a key that is taken again was in effect never
	// free: who probes for it has hardly a chance to see it so.
	atOnce = 10 * time.Millisecond
)

// turn says how long this client stays away from the key after a hold went back to
// the database, so that other programs, which find out by probes, get their turn;
// waiting tells whether callers of its own waited meanwhile.
// Where others are known to want the key, all of them and this client have the same
// chance. Where nothing tells of others it is short, but now and then so long that
// any other must have probed and taken the key, which tells of it. A series of holds
// that is younger than HandOn (or its default) goes on. Called under Client.mu.
func (q *queue) turn(now time.Duration, waiting bool) time.Duration {
	s := &q.series
	if now-s.since < q.young(waiting) {
		return 0
	}
	first, most, short := firstLookAround, lookAround, rand.N(firstProbe)
	if !waiting {
		first, most, short = firstLoneLookAround, loneLookAround, 0
	}
	s.since = 0
	switch {
	case now < s.contested && q.c.watcher.live:
		return jitter(pushTurn)
	case now < s.contested:
		return rand.N(lastProbe)
	case s.pause == 0: // soon, not at once
		s.around, s.pause = now, first
	case now-s.around >= s.pause:
		s.around, s.pause = now, min(2*s.pause, most)
		return lastProbe * 3 / 2
	}
	return short
}

// young is for how long a series goes on. That of a lone caller outlasts the look
// around of another program, so that it is seen.
func (q *queue) young(waiting bool) time.Duration {
	d := max(q.c.opts.HandOn, defaultHandOn)
	if !waiting {
		return 2 * d
	}
	return d
}

// yield leaves the key to others for a moment, where it is their turn. Called under
// Client.mu.
func (q *queue) yield() { q.yieldIf(true) }

func (q *queue) yieldIf(waiting bool) {
	if d := q.turn(q.c.now(), waiting); d > 0 {
		q.rest(d) // and takes it then if it can
		q.spot.attempt, q.offered = true, true
		return
	}
	q.attempt()
}

// begin makes the first attempt of a new queue: at once, unless this client had the
// key until now and it is the turn of others. Called under Client.mu.
func (q *queue) begin() {
	s, ok := q.c.recent.take(q.key, q.c.now())
	if ok {
		q.series = s
	}
	switch {
	case !ok || q.c.now()-s.since < q.young(false):
		q.attempt()
	case q.c.queuer != nil:
		q.enqueue(func() { q.yieldIf(false) }) // at its end: that is fair
	default:
		q.yieldIf(false)
	}
}

// localKey is a key that leases of this client hold, or whose release is under way.
type localKey struct {
	leases int
	holder *grant.Grant // the last of them
	series series
}

// addLocal notes that a lease of its key has begun. Called under Client.mu.
func (c *Client) addLocal(g *grant.Grant) {
	k := c.local[g.Hold.Key]
	k.leases++
	k.holder = g
	c.local[g.Hold.Key] = k
}

// heldHere says what stands in the way of key within this client, if anything does:
// a lease of another caller, or a release that is not answered. Called under Client.mu.
func (c *Client) heldHere(key string) error {
	k := c.local[key]
	if k.leases == 0 {
		return nil
	}
	left, live := k.holder.Live()
	if !live {
		return errReleasing
	}
	return &HeldError{Key: key, Owner: c.opts.Owner, Left: left + k.holder.Terms.Margin}
}

// errReleasing: who has the key is not known.
var errReleasing = errors.New("the release of the hold that this client had of the key is not answered")

// keepSeries keeps what the queue of key knew beyond its end, for as long as the
// key is held. Called under Client.mu.
func (c *Client) keepSeries(key string, s series) {
	if k, ok := c.local[key]; ok {
		k.series = s
		c.local[key] = k
	}
}

// setOwn notes in the series of key, wherever it is, whether the push of an own
// release is still to come. Called under Client.mu.
func (c *Client) setOwn(key string, own bool) {
	if q := c.queues[key]; q != nil {
		q.series.own = own
	} else if k, ok := c.local[key]; ok {
		k.series.own = own
		c.local[key] = k
	} else if e, ok := c.recent.keys[key]; ok {
		e.own = own
		c.recent.keys[key] = e
	}
}

// forgetOwn expects no push of an own release any more. Called under Client.mu.
func (c *Client) forgetOwn() {
	for key := range c.local {
		c.setOwn(key, false)
	}
	for key := range c.recent.keys {
		c.setOwn(key, false)
	}
	for key := range c.queues {
		c.setOwn(key, false)
	}
}

// localEnd notes that a lease of key has ended, and its release was answered. With
// yield the local queue gives others the precedence.
func (c *Client) localEnd(key string, yield bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.local[key]
	if k.leases--; k.leases > 0 {
		c.local[key] = k
	} else {
		delete(c.local, key)
	}
	q := c.queues[key]
	switch {
	case q == nil:
		if yield && k.leases == 0 && k.series.since > 0 {
			c.recent.put(key, k.series, c.now())
		}
	case yield && q.state == resting && c.queuer != nil:
		q.enqueue(q.yield) // at its end: that is fair
	case yield && q.state == resting:
		q.yield()
	default:
		q.wake()
	}
}

// recent keeps the series of keys that were released just now and that no caller
// waits for: one that comes at once goes on with it. Guarded by Client.mu.
type recent struct {
	keys map[string]ended
}

type ended struct {
	series
	at time.Duration
}

// maxRecent bounds the keys in recent.
const maxRecent = 1024

func (r *recent) put(key string, s series, now time.Duration) {
	if len(r.keys) >= maxRecent {
		for key, e := range r.keys {
			if now-e.at > atOnce {
				delete(r.keys, key)
			}
		}
	}
	if len(r.keys) >= maxRecent {
		clear(r.keys)
	}
	if r.keys == nil {
		r.keys = make(map[string]ended)
	}
	r.keys[key] = ended{s, now}
}

// take returns the series of key, if it goes on.
func (r *recent) take(key string, now time.Duration) (series, bool) {
	e, ok := r.keys[key]
	if !ok {
		return series{}, false
	}
	delete(r.keys, key)
	return e.series, now-e.at <= atOnce
}
