package testenv

import (
	"context"
	"io"
	"net"
	"sync"
	"time"
)

// follower is an address that leads to the member of a cluster which takes writes. While none does it refuses.
type follower struct {
	m        *members
	cuts     bool // connections to a member that takes writes no more; else they stay open
	listener net.Listener
	end      context.CancelFunc
	ended    sync.WaitGroup

	mu      sync.Mutex
	to      int
	open    map[net.Conn]int // connections of clients, and where they lead
	history []Cut
}

// followEvery is the time between two looks at who takes writes. So many in a row must find no member that does before
// the address leads to none.
const (
	followEvery = 50 * time.Millisecond
	followLooks = 2
)

func newFollower(m *members, cuts bool) (*follower, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	f := &follower{m: m, cuts: cuts, to: -1, open: make(map[net.Conn]int)}
	if f.listener, err = net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port}); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	f.end = cancel
	f.ended.Go(func() { f.watch(ctx) })
	f.ended.Go(func() {
		for {
			client, err := f.listener.Accept()
			if err != nil {
				return
			}
			go f.serve(client)
		}
	})
	return f, nil
}

func (f *follower) addr() string { return f.listener.Addr().String() }

// at is the member that new connections are led to; -1: none.
func (f *follower) at() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.to
}

// watch looks again and again at who takes writes.
func (f *follower) watch(ctx context.Context) {
	none := 0
	for {
		at := f.at()
		to, why := f.m.way.look(ctx, at)
		if ctx.Err() != nil {
			return
		}
		if none++; to >= 0 {
			none = 0
		}
		if to >= 0 || none >= followLooks {
			f.lead(to, why)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(followEvery):
		}
	}
}

// lead makes new connections go to a member, and cuts those to the others.
func (f *follower) lead(to int, why string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if to == f.to {
		return
	}
	from := f.to
	f.to = to
	if !f.cuts {
		return
	}
	if last := len(f.history) - 1; last >= 0 && to >= 0 && f.history[last].End.IsZero() {
		f.history[last].To, f.history[last].End = to, time.Now()
	}
	cut := Cut{Begin: time.Now(), From: from, To: to, Why: why}
	for client, at := range f.open {
		if at != to {
			cut.Connections++
			_ = client.Close()
		}
	}
	if cut.Connections == 0 {
		return
	}
	if to >= 0 {
		cut.End = time.Now()
	}
	f.history = append(f.history, cut)
}

// serve carries what a client and its member say to each other, until one of them ends it or lead cuts it.
func (f *follower) serve(client net.Conn) {
	defer client.Close()
	to := f.at()
	if to < 0 {
		return
	}
	server, err := net.DialTimeout("tcp", f.m.list[to].addr(), 2*time.Second)
	if err != nil {
		return
	}
	defer server.Close()
	f.mu.Lock()
	if f.cuts && f.to != to {
		f.mu.Unlock()
		return
	}
	f.open[client] = to
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.open, client)
	}()
	ended := make(chan struct{}, 2)
	for _, way := range [][2]net.Conn{{client, server}, {server, client}} {
		go func() {
			_, _ = io.Copy(way[0], way[1])
			ended <- struct{}{}
		}()
	}
	<-ended // the other one ends when both are closed
}

func (f *follower) close() {
	f.end()
	_ = f.listener.Close()
	f.ended.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	for client := range f.open {
		_ = client.Close()
	}
}
