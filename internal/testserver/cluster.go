package testserver

import "strconv"

// LeavingDSN is the second address of a cluster: like DSN's it leads to the member that takes writes, but leaves
// connections to the one before open, where DSN's cuts them.
func (s *Server) LeavingDSN() string { return s.leaving }

// MemberDSNs are the addresses of a cluster's members.
func (s *Server) MemberDSNs() []string { return s.members }

// Primary is the member of a cluster that takes writes; -1: none.
func (s *Server) Primary() int { s.t.Helper(); return s.number("primary") }

// Switch makes another member the one that takes writes, as planned: nothing is lost.
func (s *Server) Switch(to int) { s.t.Helper(); s.do("switch", []int{to}) }

// Promote makes another member the one that takes writes, after that was killed or paused, and names it.
func (s *Server) Promote() int { s.t.Helper(); return s.number("promote") }

// Rejoin brings back members that were killed, paused or replaced.
func (s *Server) Rejoin(members ...int) { s.t.Helper(); s.do("rejoin", members) }

// HAProxy starts a real HAProxy before a cluster, which leads to the member that takes writes and cuts connections to
// the one before, and gives its address.
func (s *Server) HAProxy() string { s.t.Helper(); return s.ask("haproxy", nil) }

func (s *Server) number(verb string) int {
	s.t.Helper()
	answer := s.ask(verb, nil)
	n, err := strconv.Atoi(answer)
	if err != nil {
		s.t.Fatalf("%s the %s server: %q is no number", verb, s.kind, answer)
	}
	return n
}
