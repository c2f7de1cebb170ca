package main

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/rowlock/rowlock/examples/internal/timed"
)

// call is what a caller says of itself, in the header of its request.
type call struct {
	Caller int
	Place  int   // by which the partner knows it
	Token  int64 // rises from call to call with one number
	Waited time.Duration
}

func (c call) write(h http.Header) {
	h.Set("Caller", strconv.Itoa(c.Caller))
	h.Set("Place", strconv.Itoa(c.Place))
	h.Set("Fencing-Token", strconv.FormatInt(c.Token, 10))
	h.Set("Waited", c.Waited.String())
}

func readCall(h http.Header) (c call, err error) {
	var errs [4]error
	c.Caller, errs[0] = strconv.Atoi(h.Get("Caller"))
	c.Place, errs[1] = strconv.Atoi(h.Get("Place"))
	c.Token, errs[2] = strconv.ParseInt(h.Get("Fencing-Token"), 10, 64)
	c.Waited, errs[3] = time.ParseDuration(h.Get("Waited"))
	return c, errors.Join(errs[:]...)
}

// partner takes some calls at a time, each with a number of its own, and refuses others.
type partner struct {
	takes time.Duration // a call

	mu      sync.Mutex
	places  []place
	now     int // calls
	most    int // calls at a time
	calls   int
	waits   []float64   // seconds, of each call
	of      map[int]int // calls of each process
	refused []error
}

// place is a number that callers have one after the other.
type place struct {
	caller   int // in a call now; 0: none
	calls    int
	token    int64 // of the last call
	users    map[int]bool
	ended    time.Time     // the last call
	longest  time.Duration // without a call
	broken   bool          // the last call was broken off
	returned call          // the first call after that
}

func newPartner(places int, takes time.Duration) *partner {
	p := &partner{takes: takes, places: make([]place, places), of: map[int]int{}}
	for i := range p.places {
		p.places[i].users = map[int]bool{}
	}
	return p
}

// ServeHTTP takes a call.
func (p *partner) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c, err := readCall(r.Header)
	if err == nil {
		err = p.begin(c)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusConflict)
		return
	}
	p.end(c, timed.Sleep(r.Context(), p.takes) != nil) // the context ends when the caller dies
}

func (p *partner) begin(c call) (err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer func() {
		if err != nil {
			p.refused = append(p.refused, fmt.Errorf("process %d with number %d: %w", c.Caller, c.Place, err))
		}
	}()
	switch {
	case c.Place < 0 || c.Place >= len(p.places):
		return fmt.Errorf("there is no such number: use 0 to %d", len(p.places)-1)
	case p.now == len(p.places):
		return fmt.Errorf("%d calls at a time are enough", p.now)
	case p.places[c.Place].caller != 0:
		return fmt.Errorf("process %d is in a call with it", p.places[c.Place].caller)
	case c.Token <= p.places[c.Place].token:
		return fmt.Errorf("its token is %d, and a call came with %d", c.Token, p.places[c.Place].token)
	}
	at := &p.places[c.Place]
	if !at.ended.IsZero() {
		at.longest = max(at.longest, time.Since(at.ended))
	}
	if at.broken {
		at.broken, at.returned = false, c
	}
	at.caller, at.token = c.Caller, c.Token
	at.users[c.Caller] = true
	at.calls++
	p.now++
	p.calls++
	p.most = max(p.most, p.now)
	p.of[c.Caller]++
	p.waits = append(p.waits, c.Waited.Seconds())
	return nil
}

func (p *partner) end(c call, broken bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := &p.places[c.Place]
	at.caller, at.ended, at.broken = 0, time.Now(), broken
	p.now--
}

// count is the number of calls so far.
func (p *partner) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.calls
}

// caller is a process in a call, and its number; 0: nobody calls.
func (p *partner) caller() (process, number int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, at := range p.places {
		if at.caller != 0 {
			return at.caller, i
		}
	}
	return 0, 0
}

// brokenOff reports whether the last call with a number was broken off; next is the first call
// after such a one.
func (p *partner) brokenOff(number int) (broken bool, next call) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.places[number].broken, p.places[number].returned
}
