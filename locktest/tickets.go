// Rule 19 of the seam: tickets, and requests that are refused while others stand before.

package locktest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/rowlock/rowlock/driver"
)

var seamTickets = []testCase{
	{name: "Store_TicketsInOrder", run: ticketsInOrder, needs: tickets},
	{name: "Store_TicketsInABatch", run: ticketBatch, needs: tickets},
	{name: "Store_TicketEnds", run: ticketEnds, needs: tickets},
	{name: "Store_TicketsOfOneClient", run: ticketsOfOneClient, needs: tickets},
	{name: "Store_FairInABatch", run: fairBatch, needs: tickets},
	{name: "Store_FairSlots", run: fairSlots, needs: func(e *env) bool { return tickets(e) && slots(e) }},
	{name: "Store_LineInfo", run: lineInfo, needs: func(e *env) bool { return tickets(e) && listing(e) && forcing(e) }},
	{name: "Store_TicketsReaped", run: ticketsReaped, needs: func(e *env) bool { return tickets(e) && reaping(e) }, alone: true},
}

// put puts or renews tickets, and gives them their places.
func put(t testing.TB, s driver.Store, tickets ...*driver.Ticket) []driver.Place {
	t.Helper()
	qs := make([]driver.Ticket, len(tickets))
	for i, q := range tickets {
		qs[i] = *q
	}
	places, err := s.(driver.Tickets).PutTickets(soon(t), qs)
	for end := time.Now().Add(patience); err != nil && late(err) && time.Now().Before(end); {
		t.Logf("put %d tickets: %v", len(qs), err)
		places, err = s.(driver.Tickets).PutTickets(soon(t), qs)
	}
	if err != nil || len(places) != len(qs) {
		t.Fatalf("put %d tickets: %d places, %v", len(qs), len(places), err)
	}
	for i, q := range tickets {
		if places[i].Seq == 0 || q.Seq != 0 && places[i].Seq != q.Seq {
			t.Fatalf("P23: a ticket with the place %d has the place %d", q.Seq, places[i].Seq)
		}
		q.Seq = places[i].Seq
	}
	return places
}

func remove(t testing.TB, s driver.Store, tickets ...*driver.Ticket) {
	t.Helper()
	qs := make([]driver.Ticket, len(tickets))
	for i, q := range tickets {
		qs[i] = *q
	}
	if err := s.(driver.Tickets).RemoveTickets(soon(t), qs); err != nil {
		t.Fatalf("remove %d tickets: %v", len(qs), err)
	}
}

func line(t testing.TB, s driver.Store, key string) driver.Line {
	t.Helper()
	lines, err := s.(driver.Tickets).Lines(soon(t), []string{key})
	if err != nil || len(lines) != 1 {
		t.Fatalf("the line of %q: %v, %v", key, lines, err)
	}
	return lines[0]
}

// queued makes a ticket and puts it, a moment after those before.
func queued(t testing.TB, s driver.Store, key string) *driver.Ticket {
	t.Helper()
	time.Sleep(2 * time.Millisecond)
	q := &driver.Ticket{Key: key, ID: newID()}
	put(t, s, q)
	return q
}

// fairFor is a Fair request of the client with that ticket.
func fairFor(q *driver.Ticket) driver.Request {
	return driver.Request{Key: q.Key, ID: newID(), TTL: longTTL, Fair: true, Ticket: q.ID, Seq: q.Seq}
}

// keepAlive renews tickets until the end of the test, so that no pause of the machine ends
// them.
func keepAlive(t testing.TB, s driver.Store, tickets ...*driver.Ticket) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	qs := make([]driver.Ticket, len(tickets))
	for i, q := range tickets {
		qs[i] = *q
	}
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			_, _ = s.(driver.Tickets).PutTickets(context.Background(), qs)
			select {
			case <-ctx.Done():
			case <-time.After(driver.TicketTime / 10):
			}
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
}

// refusedBehind asks until the answer is that so many stand before: their tickets may have been over
// for a moment.
func refusedBehind(t testing.TB, s driver.Store, q driver.Request, ahead int, refresh ...*driver.Ticket) {
	t.Helper()
	r := driver.Result{}
	for range 5 {
		start := time.Now()
		if len(refresh) > 0 {
			put(t, s, refresh...)
		}
		if r = one(t, s, q); r.Status == driver.Held && r.Ahead == ahead && r.Left > 0 && r.Left <= driver.TicketTime {
			return
		}
		if r.Status == driver.Granted {
			if len(refresh) == 0 || time.Since(start) < driver.TicketTime {
				break
			}
			freed(t, s, holdOf(q, r)) // the machine was so slow that the tickets were over
		}
	}
	t.Fatalf("P23: a request behind %d others: %+v", ahead, r)
}

func ticketsInOrder(t *testing.T, e *env) {
	a, b, key := e.Open(t), e.Open(t), e.key(t)
	first := queued(t, a, key)
	second := queued(t, b, key)
	third := queued(t, a, key)
	all := []*driver.Ticket{first, second, third}
	for i, p := range put(t, b, all...) {
		if p.Ahead != i || i > 0 && (p.Left <= 0 || p.Left > driver.TicketTime) {
			t.Errorf("P23: ticket %d of three: %+v", i+1, p)
		}
	}
	refusedBehind(t, b, fairFor(third), 2, all...)
	refusedBehind(t, a, fairFor(second), 1, all...)
	newcomer := driver.Request{Key: key, ID: newID(), TTL: longTTL, Fair: true}
	refusedBehind(t, a, newcomer, 3, all...)
	newcomer.Ticket = newID()
	refusedBehind(t, a, newcomer, 3, all...)
	put(t, a, all...)
	h := grant(t, a, fairFor(first))
	remove(t, a, first)
	remove(t, b, first) // twice is no error
	// The second stands first, and finds the key held by the grant, not by a ticket.
	if r := one(t, b, fairFor(second)); r.Status != driver.Held || r.Ahead != 0 {
		t.Errorf("P23: the first in the line of a key that is held: %+v", r)
	}
	refusedBehind(t, b, fairFor(third), 1, second, third)
	freed(t, a, h)
	h = grant(t, b, fairFor(second))
	freed(t, b, h)
	put(t, b, second)
	freed(t, a, grant(t, a, driver.Request{Key: key, ID: newID(), TTL: longTTL})) // who is not Fair passes
}

// ticketBatch puts new tickets and renews others of many keys in one call.
func ticketBatch(t *testing.T, e *env) {
	s := e.Open(t)
	const n = 30
	var old, own []*driver.Ticket
	mine := newID()
	odd := e.oddKeys(t)
	for i := range n {
		key := e.key(t)
		if i < len(odd) {
			key = odd[i]
		}
		old = append(old, &driver.Ticket{Key: key, ID: newID()})
		own = append(own, &driver.Ticket{Key: key, ID: mine})
	}
	put(t, s, old...)
	time.Sleep(2 * time.Millisecond)
	put(t, s, own[:n/2]...)
	time.Sleep(2 * time.Millisecond)
	inTime(t, driver.TicketTime/2, func() (wrong string) {
		for i, p := range put(t, s, append(append([]*driver.Ticket{}, own...), old...)...) {
			if want := []int{1, 0}[i/n]; p.Ahead != want {
				wrong = fmt.Sprintf("P23: ticket %d of a batch: %+v, want %d before it", i, p, want)
			}
		}
		return wrong
	})
	if own[0].Seq >= own[n-1].Seq {
		t.Errorf("P23: a renewed ticket stands behind a new one: %d, %d", own[0].Seq, own[n-1].Seq)
	}
	keys := make([]string, n)
	for i, q := range own {
		keys[i] = q.Key
	}
	remove(t, s, old...)
	lines, err := s.(driver.Tickets).Lines(soon(t), keys)
	if err != nil || len(lines) != n {
		t.Fatalf("%d lines, %v", len(lines), err)
	}
	for i, l := range lines {
		if l.Waiting > 1 {
			t.Errorf("P23: the line of %q has %d, want 1", keys[i], l.Waiting)
		}
	}
	remove(t, s, own...)
	if l := line(t, s, keys[0]); l.Waiting != 0 || !l.Since.IsZero() {
		t.Errorf("P23: a line that is empty: %+v", l)
	}
}

// ticketEnds by itself, and has its place again when it is renewed.
func ticketEnds(t *testing.T, e *env) {
	s, key := e.Open(t), e.key(t)
	first := queued(t, s, key)
	second := queued(t, s, key)
	time.Sleep(driver.TicketTime + 100*time.Millisecond)
	if p := put(t, s, second); p[0].Ahead != 0 {
		t.Errorf("P23: a ticket that is over counts: %+v", p)
	}
	freed(t, s, grant(t, s, fairFor(second)))
	if l := line(t, s, key); l.Waiting > 1 {
		t.Errorf("P23: a ticket that is over is in the line: %+v", l)
	}
	put(t, s, first)
	refusedBehind(t, s, fairFor(second), 1, first, second)
	remove(t, s, first)
	if p := put(t, s, first); p[0].Ahead != 0 { // a renewal that came late
		t.Errorf("P23: a ticket that was removed lost its place: %+v", p)
	}
}

// ticketsOfOneClient: one that is about to be removed keeps its own client from nothing.
func ticketsOfOneClient(t *testing.T, e *env) {
	s, key := e.Open(t), e.key(t)
	used := queued(t, s, key)
	next := &driver.Ticket{Key: key, ID: used.ID}
	time.Sleep(2 * time.Millisecond)
	if p := put(t, s, next); p[0].Ahead != 0 || next.Seq <= used.Seq {
		t.Errorf("P23: a second ticket of one client: %+v after %d", p, used.Seq)
	}
	request := fairFor(next)
	request.Seq = 0
	freed(t, s, grant(t, s, request))
	other := queued(t, s, key)
	start := time.Now()
	put(t, s, next, other)
	remove(t, s, used) // whose place the next one may have taken
	if l := line(t, s, key); l.Waiting != 2 && time.Since(start) < driver.TicketTime/2 {
		t.Errorf("P23: %d tickets after one of three was removed, want 2", l.Waiting)
	}
	refusedBehind(t, s, fairFor(other), 1, next, other)
}

// fairBatch has requests of all kinds in one call.
func fairBatch(t *testing.T, e *env) {
	s := e.Open(t)
	var reqs []driver.Request
	var others []*driver.Ticket
	for i := range 8 {
		own := &driver.Ticket{Key: e.key(t), ID: newID()}
		if i%4 > 1 { // another stands before
			others = append(others, &driver.Ticket{Key: own.Key, ID: newID()})
		}
		q := fairFor(own)
		q.Fair = i%2 == 0
		reqs = append(reqs, q)
	}
	put(t, s, others...)
	keepAlive(t, s, others...)
	results, err := s.Acquire(soon(t), reqs)
	if err != nil || len(results) != len(reqs) {
		t.Fatalf("%d results, %v", len(results), err)
	}
	for i, r := range results {
		want := driver.Result{Status: driver.Granted}
		if i%4 == 2 {
			want = driver.Result{Status: driver.Held, Ahead: 1}
		}
		if r.Status != want.Status || r.Ahead != want.Ahead {
			t.Errorf("P23: request %d of a batch: %+v, want %v", i, r, want.Status)
		}
	}
	if all, err := s.Acquire(soon(t), []driver.Request{reqs[2], reqs[6]}); err != nil || all[0].Ahead != 1 || all[1].Ahead != 1 {
		t.Errorf("P23: a batch of which all stand behind: %+v, %v", all, err)
	}
}

// fairSlots: one line for exclusive requests and slots.
func fairSlots(t *testing.T, e *env) {
	s, key := e.Open(t), e.key(t)
	h := grant(t, s, slotOf(key, 2))
	first := queued(t, s, key)
	second := queued(t, s, key)
	slot := func(q *driver.Ticket) driver.Request {
		r := fairFor(q)
		r.Mode, r.Slots, r.Slot = driver.Slot, 2, -1
		return r
	}
	refusedBehind(t, s, slot(second), 1, first, second)
	put(t, s, first, second)
	other := grant(t, s, slot(first))
	remove(t, s, first)
	refusedBehind(t, s, fairFor(&driver.Ticket{Key: key, ID: newID()}), 1, second)
	if r := one(t, s, slot(second)); r.Status != driver.Held || r.Ahead != 0 {
		t.Errorf("P23: the first in the line, all slots are taken: %+v", r)
	}
	freed(t, s, h)
	freed(t, s, other)
}

// lineInfo: an operator sees who waits, and a forced release leaves them in their places.
func lineInfo(t *testing.T, e *env) {
	s, key := e.Open(t), e.key(t)
	grant(t, s, driver.Request{Key: key, ID: newID(), TTL: longTTL})
	before := time.Now()
	first := queued(t, s, key)
	second := queued(t, s, key)
	keepAlive(t, s, first, second)
	check := func(what string, i driver.Info) {
		t.Helper()
		if i.Waiting != 2 || i.WaitingSince.IsZero() || i.WaitingSince.Sub(before).Abs() > time.Hour {
			t.Errorf("P23: %s: %d wait since %v, want 2", what, i.Waiting, i.WaitingSince)
		}
	}
	list := func() driver.Info {
		infos, err := s.(driver.Lister).List(soon(t), key, "", 10)
		if err != nil || len(infos) != 1 {
			t.Fatalf("list: %+v, %v", infos, err)
		}
		return infos[0]
	}
	check("List", list())
	check("Lines", func() (i driver.Info) { line(t, s, key).Inform(&i); return i }())
	info, err := s.(driver.Forcer).ForceRelease(soon(t), key)
	if err != nil {
		t.Fatalf("force: %v", err)
	}
	check("ForceRelease", info)
	check("List after ForceRelease", list())
	freed(t, s, grant(t, s, fairFor(first)))
	if i := inspect(t, s, key); i.Waiting != 0 {
		t.Errorf("the probe counts tickets: %+v", i)
	}
}

// ticketsReaped: no live ticket goes, and none that may be renewed.
func ticketsReaped(t *testing.T, e *env) {
	s, key := e.Open(t), e.key(t)
	over, live := queued(t, s, key), queued(t, s, key)
	time.Sleep(driver.TicketTime + 100*time.Millisecond)
	put(t, s, live)
	keepAlive(t, s, live)
	reap(t, s)
	if l := line(t, s, key); l.Waiting != 1 {
		t.Errorf("P23: %d in the line after the reaper, want the one that waits", l.Waiting)
	}
	if p := put(t, s, over, live); p[0].Ahead != 0 || p[1].Ahead != 1 {
		t.Errorf("P23: after the reaper: %+v", p)
	}
}
