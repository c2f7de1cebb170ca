package rowlock

import (
	"context"
	"crypto/rand"
	"slices"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/key"
	"github.com/rowlock/rowlock/internal/logs"
)

// Fair. An entry whose callers wait with Fair has a ticket in the database (driver.Tickets) from
// its first refusal on. The ticket is used up by the grant, or handoff, that serves one of its
// callers; the others get a new one, behind those who wait then. All tickets of a client are put
// and renewed together, by one goroutine that runs while there are any.

// line is the tickets of a client. Guarded by Client.mu.
type line struct {
	c       *Client
	store   driver.Tickets // nil: the store has none
	id      driver.HoldID  // of the client's tickets, but for the mode
	tickets []*ticket
	gone    []*removal // to be sent
	running bool
	wake    chan struct{}
	pause   time.Duration // after a failure
}

// ticket is that of an entry.
type ticket struct {
	driver.Ticket
	k     *keyEntry
	ahead int           // that stand before it, as was said last
	sent  time.Duration // when what renewed it last was sent; 0: it was not put yet
	due   time.Duration // when it is to be put or renewed
	onWay bool          // a call has it
	gone  *removal      // it was given up while a call had it
}

// removal is that of a ticket that was given up.
type removal struct {
	driver.Ticket
	done bool
	then []func() // turns in the server's queue that end when it is answered
}

const (
	// ticketEvery is the age at which tickets are renewed.
	ticketEvery = driver.TicketTime / 3

	// ticketPatience is how long the answer to a call about tickets is worth waiting for.
	ticketPatience = driver.TicketTime

	// The time after a call that failed.
	ticketPause  = 50 * time.Millisecond
	ticketPauses = driver.TicketTime / 2
)

func (n *line) init(c *Client, store driver.Store) {
	n.c, n.wake = c, make(chan struct{}, 1)
	n.store, _ = store.(driver.Tickets)
	rand.Read(n.id[:]) // never fails
}

// ticketID is that of all tickets of the callers for a key in one mode, one after the other:
// none of them stands in the way of the client's own attempts, as the last one would until it
// is removed.
func (c *Client) ticketID(m driver.Mode) driver.HoldID {
	id := c.line.id
	id[0] ^= byte(m)
	return id
}

// fair reports whether the caller that is next waits with Fair.
func (k *keyEntry) fair() bool { return len(k.waiters) > 0 && k.waiters[0].set.fair }

// hasPlace reports whether the entry may wait in the server's queue: with Fair, where its ticket
// has a place.
func (k *keyEntry) hasPlace() bool { return !k.fair() || k.ticket != nil && k.ticket.Seq > 0 }

// lineUp gives the entry a ticket when its callers need one, and gives it up when they do
// not. Called under c.mu.
func (k *keyEntry) lineUp() {
	c := k.c
	needs := !c.closed && k.fair()
	switch {
	case !needs:
		k.dropTicket()
	case k.ticket == nil && (k.Mode == key.Resting || k.Mode == key.Queued):
		t := &ticket{k: k, Ticket: driver.Ticket{Key: k.id.name, ID: c.ticketID(k.id.mode)}}
		k.ticket = t
		c.line.add(t)
	}
}

// dropTicket gives the entry's ticket up: it was used, or nobody waits any more.
func (k *keyEntry) dropTicket() {
	t := k.ticket
	if t == nil {
		return
	}
	k.ticket, t.k = nil, nil
	n := &k.c.line
	n.tickets = slices.DeleteFunc(n.tickets, func(o *ticket) bool { return o == t })
	r := &removal{Ticket: t.Ticket}
	switch {
	case t.onWay:
		t.gone = r // its place may not be known yet
	case t.Seq > 0:
		n.gone = append(n.gone, r)
		n.start()
	default:
		return // it was never put
	}
	k.removal = r
}

// afterRemoval runs end, which ends the client's turn in the server's queue, when the ticket that
// was used up is removed: until then it stands in the way of the client whose turn is next.
func (k *keyEntry) afterRemoval(end func()) {
	if r := k.removal; r != nil && !r.done {
		r.then = append(r.then, end)
		return
	}
	end()
}

// answered notes that the removal was answered, or will not be sent.
func (r *removal) answered() {
	r.done = true
	for _, end := range r.then {
		end()
	}
	r.then = nil
}

// showTicket adds to an attempt what a Fair one says of its client's place in the line. k is nil
// where its caller does not wait.
func (c *Client) showTicket(q *driver.Request, k *keyEntry) {
	if !q.Fair {
		return
	}
	if q.Ticket = c.ticketID(q.Mode); k != nil && k.ticket != nil {
		q.Seq = k.ticket.Seq
	}
}

// othersFirst is the refusal of a caller that does not wait, while others of this client do;
// nil: none does. Called under c.mu.
func (c *Client) othersFirst(id keyID, s settings) error {
	if k := c.keys[id]; s.fair && k != nil && k.fair() {
		return &HeldError{Key: id.name, Waiting: 1}
	}
	return nil
}

// first reports whether no other program stands before this one in the line, for certain. Its
// attempts need no look who does, and its grants may be handed off.
func (k *keyEntry) first(now time.Duration) bool {
	t := k.ticket
	return t != nil && t.sent > 0 && t.ahead == 0 && now < t.sent+driver.TicketTime
}

func (n *line) add(t *ticket) {
	n.tickets = append(n.tickets, t)
	n.start()
}

// start runs the goroutine, or wakes it.
func (n *line) start() {
	if !n.running {
		n.running = true
		n.c.store.Work.Fork(n.run)
		return
	}
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// run puts, renews and removes tickets until there are none.
func (n *line) run() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		put, gone, sleep, end := n.collect()
		if end {
			return
		}
		if len(put)+len(gone) > 0 {
			n.send(put, gone)
			continue
		}
		timer.Reset(sleep)
		select {
		case <-timer.C:
		case <-n.wake:
		}
	}
}

// collect takes the tickets that are due, with those that are nearly, and those that are to
// be removed; or it says how long to sleep.
func (n *line) collect() (put []*ticket, gone []*removal, sleep time.Duration, end bool) {
	c := n.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(n.tickets)+len(n.gone) == 0 {
		n.running = false
		return nil, nil, 0, true
	}
	now, most := c.now(), c.store.Limits.Batch
	gone = n.gone[:min(len(n.gone), most)]
	n.gone = slices.Clone(n.gone[len(gone):])
	next := now + time.Hour
	for _, t := range n.tickets {
		next = min(next, t.due)
	}
	if next <= now {
		for _, t := range n.tickets {
			if t.due <= now+ticketEvery/2 && len(put) < most {
				t.onWay = true
				put = append(put, t)
			}
		}
	}
	return put, gone, next - now, false
}

// send removes the tickets that are gone first: others wait for it.
func (n *line) send(put []*ticket, gone []*removal) {
	failed := n.remove(gone)
	if len(put) == 0 {
		return
	}
	c := n.c
	tickets := make([]driver.Ticket, len(put))
	renewed := true
	for i, t := range put {
		tickets[i] = t.Ticket
		renewed = renewed && t.Seq > 0
	}
	sent := c.now()
	places, err := c.store.PutTickets(n.store, tickets, ticketPatience)
	c.mu.Lock()
	defer c.mu.Unlock()
	if renewed { // a new one belongs to an attempt
		c.prober.sentOthers(2)
	}
	if err != nil || failed != nil {
		n.pause = min(max(2*n.pause, ticketPause), ticketPauses)
	} else {
		n.pause = 0
	}
	if err == nil {
		c.report.Acquire.OK()
	}
	for i, t := range put {
		t.onWay = false
		if err != nil {
			t.due = sent + n.pause
		} else {
			t.Seq, t.ahead, t.sent, t.due = places[i].Seq, places[i].Ahead, max(sent, 1), sent+ticketEvery
		}
		switch {
		case t.gone != nil && t.Seq > 0:
			t.gone.Seq = t.Seq
			n.gone = append(n.gone, t.gone)
		case t.gone != nil:
			t.gone.answered() // it is not there, or ends by itself
		case err != nil:
			t.k.ticketFailed(err)
		default:
			t.k.placed(places[i])
		}
	}
}

// remove removes tickets. Those that it could not remove end by themselves.
func (n *line) remove(gone []*removal) error {
	if len(gone) == 0 {
		return nil
	}
	tickets := make([]driver.Ticket, len(gone))
	for i, r := range gone {
		tickets[i] = r.Ticket
	}
	err := n.c.store.RemoveTickets(n.store, tickets, ticketPatience)
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	for _, r := range gone {
		r.answered()
	}
	return err
}

// ticketFailed notes that the ticket could not be put or renewed. Its callers wait on, without
// a place or with one that may be passed, unless it will fail the same way next time.
func (k *keyEntry) ticketFailed(err error) {
	k.noteCause(err)
	k.c.report.Acquire.Fail(context.Background(), 0, logs.Attrs(k.id.name, k.id.mode, "err", err)...)
	if driver.IsLasting(err) && k.sent == nil && len(k.waiters) > 0 {
		k.pop(nil, err)
		k.step(key.Event{Kind: key.Left})
	}
}
