package check

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/rowlock/rowlock/dev/verify/history"
)

// simulation makes the history of a key as a right lock would: workers of several
// clients that contend for it, look, commit, write, lose replies, and are killed.
type simulation struct {
	*rand.Rand
	key     string
	events  []history.Event
	ids     map[string]int64
	workers []worker

	now    time.Duration // from then on the key is free
	token  int64
	ledger []history.Event
	holds  content
	value  int64
}

type worker struct {
	client string
	ready  time.Duration
}

const simulatedTTL = 100 * time.Millisecond

// simulate makes about n events.
func simulate(seed uint64, key string, clients, workers, n int) []history.Event {
	s := &simulation{Rand: rand.New(rand.NewPCG(seed, 1)), key: key, ids: make(map[string]int64), now: time.Second, token: 1024}
	for c := range clients {
		for range workers {
			s.workers = append(s.workers, worker{fmt.Sprintf("%s-p%d", key, c), s.now + s.upTo(5*time.Millisecond)})
		}
	}
	for len(s.events) < n {
		s.hold()
	}
	for i := range s.ledger {
		s.ledger[i].Value = int64(i + 1)
	}
	s.events = append(s.events, s.ledger...)
	return s.events
}

func (s *simulation) upTo(d time.Duration) time.Duration {
	return 1 + time.Duration(s.Int64N(int64(d)))
}

func (s *simulation) add(client string, e history.Event) history.Event {
	s.ids[client]++
	e.ID, e.Client, e.Space, e.Key = s.ids[client], client, "version", s.key
	s.events = append(s.events, e)
	return e
}

// next is one of the workers that wait for the key, or the first that will.
func (s *simulation) next() *worker {
	var waiting []*worker
	first := &s.workers[0]
	for i := range s.workers {
		w := &s.workers[i]
		if w.ready < s.now {
			waiting = append(waiting, w)
		}
		if w.ready < first.ready {
			first = w
		}
	}
	if len(waiting) == 0 {
		return first
	}
	return waiting[s.IntN(len(waiting))]
}

// hold is one hold from the acquire to its end.
func (s *simulation) hold() {
	w := s.next()
	granted := max(s.now, w.ready) + s.upTo(time.Millisecond)
	s.token += 1024
	a := s.add(w.client, history.Event{Kind: history.Acquire, Result: history.OK, Begin: w.ready, End: granted + s.upTo(time.Millisecond), Token: s.token})
	t := a.End
	of := history.Event{Lease: a.ID, Token: a.Token}
	call := func(kind history.Kind, result history.Result, took time.Duration) history.Event {
		e := of
		e.Kind, e.Result, e.Begin = kind, result, t+s.upTo(100*time.Microsecond)
		t = e.Begin + took
		e.End = t
		return e
	}
	for range s.IntN(6) {
		switch s.IntN(6) {
		case 0:
			s.commit(w.client, call(history.Commit, history.OK, s.upTo(time.Millisecond)))
		case 1:
			s.write(w.client, call(history.Write, history.OK, s.upTo(time.Millisecond)))
		case 2:
			e := call(history.Read, history.OK, s.upTo(time.Millisecond))
			e.Lease, e.Token, e.Value = 0, s.holds.token, s.holds.value
			s.add(w.client, e)
		case 3:
			s.add(w.client, call(history.Renew, history.OK, s.upTo(time.Millisecond)))
		default:
			s.add(w.client, call(history.Look, history.OK, time.Microsecond))
		}
	}
	if s.IntN(50) == 0 { // it stands still until others have had the key, and tries to go on
		s.now = t + simulatedTTL
		t += 5 * simulatedTTL
		s.add(w.client, call(history.Look, history.Lost, time.Microsecond))
		w.ready = t
		return
	}
	if s.IntN(10) == 0 {
		s.add("observer", history.Event{Kind: history.Observe, Result: history.Held, Begin: t, End: t + 10, Token: a.Token, Owner: a.Client})
	}
	r := s.add(w.client, call(history.Release, history.OK, s.upTo(time.Millisecond)))
	s.now = r.Begin + s.upTo(r.End-r.Begin)
	w.ready = r.End + s.upTo(3*time.Millisecond)
}

func (s *simulation) commit(client string, e history.Event) {
	e.Sent = e.Begin + s.upTo(e.End-e.Begin) - 1
	e.Value = int64(len(s.ledger) + 1)
	took := true
	switch s.IntN(20) {
	case 0:
		e.Result, took = history.Conflict, false
	case 1:
		e.Result, took = history.Unknown, s.IntN(2) == 0
	}
	e = s.add(client, e)
	if took {
		s.ledger = append(s.ledger, history.Event{ID: -e.Value, Client: s.key, Space: e.Space, Key: e.Key, Kind: history.Ledger, Token: e.Token})
	}
}

func (s *simulation) write(client string, e history.Event) {
	s.value++
	e.Value = s.value
	took := true
	if s.IntN(20) == 0 {
		e.Result, took = history.Unknown, s.IntN(2) == 0
	}
	e = s.add(client, e)
	if took {
		s.holds = content{e.Token, e.Value}
	}
}
