package testenv

import (
	"slices"
	"time"
)

// Cut is one time at which the address of a cluster ended connections, because the member that they lead to takes writes
// no more, as far as the members say.
type Cut struct {
	Begin       time.Time // before the first of them ended
	End         time.Time // when the address led to a member again; zero: it does not yet
	From        int       // the member that the address led to before
	To          int       // the one that it led to at End; -1: End is zero
	Connections int       // how many were ended
	Why         string    // what the members said
}

// Stayed reports whether the member that the connections led to may have taken writes all the time: it is the one that
// the address led to next, or none is known yet.
func (c Cut) Stayed() bool { return c.To < 0 || c.To == c.From }

// Cuts are all ends that the address of DSN made of connections, in their order: those of a failover or a switch, and
// others. None: it is no cluster, or it did not. It may be called by several goroutines at once, and after Close.
func (s *Server) Cuts() []Cut {
	if s.members == nil {
		return nil
	}
	f := s.members.cutting
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.history)
}
