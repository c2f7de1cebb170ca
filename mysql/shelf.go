package mysqllock

import "sync"

// shelf has the connections at rest of one kind, until it is closed. The one that
// was put back last is used first.
type shelf[C interface{ close() }] struct {
	mu     sync.Mutex
	idle   []C // the one that rested longest first
	closed bool
}

// pop takes one; nil: there is none.
func (s *shelf[C]) pop() (c C, open bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if last := len(s.idle) - 1; last >= 0 {
		c, s.idle = s.idle[last], s.idle[:last]
	}
	return c, !s.closed
}

// close closes what rests now and what is put back later.
func (s *shelf[C]) close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.closeIdle()
}

// closeIdle closes what rests now.
func (s *shelf[C]) closeIdle() {
	s.mu.Lock()
	idle := s.idle
	s.idle = nil
	s.mu.Unlock()
	for _, c := range idle {
		c.close()
	}
}
