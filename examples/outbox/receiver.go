package main

import (
	"encoding/json"
	"net/http"
	"sync"
	"time"
)

// receiver is the other system. It has no part in the locks: all it does is to
// remember two numbers. A real one keeps them in its own database, and changes them
// in the transaction that takes the message.
type receiver struct {
	mu    sync.Mutex
	token int64 // the largest that came
	last  int64 // the number of the last message taken

	arrived, taken, again, stale, gaps int
	cents                              int64 // of all messages taken
}

// work is how long the other system needs for a message.
const work = time.Millisecond

func (r *receiver) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	var m message
	if err := json.NewDecoder(request.Body).Decode(&m); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	time.Sleep(work)
	if !r.take(m) {
		http.Error(w, "a newer token was here", http.StatusConflict)
	}
}

// take is false if the sender has lost its lock.
func (r *receiver) take(m message) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.arrived++
	if m.Token < r.token {
		r.stale++
		return false
	}
	r.token = m.Token
	switch {
	case m.Number <= r.last: // it came before: taking it once more would be a second delivery
		r.again++
		return true
	case m.Number > r.last+1:
		r.gaps++ // it cannot come any more: a message overtook it
	}
	r.taken++
	r.last = m.Number
	r.cents += m.Cents
	return true
}
