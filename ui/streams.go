package ui

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
)

// maxStreams is how many browsers get live updates at once. The next ones get the page, and 503
// for its stream.
const maxStreams = 64

// streams are the live updates that are under way. When all are taken, a user with several gives one up for a user
// with fewer, so that no user can take all.
type streams struct {
	mu     sync.Mutex
	byUser map[string][]*place // the oldest first
	taken  int
}

// place is that of one stream.
type place struct {
	user string
	over chan struct{} // closed when another user gets the place
}

// enter gives a user a place, or nil if there is none. The user leaves it.
func (s *streams) enter(user string) *place {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taken == maxStreams {
		most := ""
		for u, list := range s.byUser {
			if len(list) > len(s.byUser[most]) {
				most = u
			}
		}
		if len(s.byUser[most]) <= len(s.byUser[user])+1 {
			return nil
		}
		oldest := s.byUser[most][0]
		close(oldest.over)
		s.remove(oldest)
	}
	if s.byUser == nil {
		s.byUser = make(map[string][]*place)
	}
	p := &place{user: user, over: make(chan struct{})}
	s.byUser[user] = append(s.byUser[user], p)
	s.taken++
	return p
}

func (s *streams) leave(p *place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remove(p)
}

// remove frees a place, unless it was given to another. Called under mu.
func (s *streams) remove(p *place) {
	list := s.byUser[p.user]
	i := slices.Index(list, p)
	if i < 0 {
		return
	}
	if s.byUser[p.user] = slices.Delete(list, i, i+1); len(s.byUser[p.user]) == 0 {
		delete(s.byUser, p.user)
	}
	s.taken--
}

// user tells the users of the page apart: by the name with which they logged in, otherwise by their address.
func (h *Handler) user(r *http.Request) string {
	if name, ok := User(r); ok {
		return "name " + name
	}
	if name, _ := h.actor(r); name != "" {
		return "name " + name
	}
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return "address " + r.RemoteAddr
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return "address " + host
	}
	if addr = addr.Unmap(); addr.Is6() { // one machine has all addresses of a network
		if network, err := addr.Prefix(64); err == nil {
			return "network " + network.String()
		}
	}
	return "address " + addr.String()
}
