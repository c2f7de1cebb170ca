package main

import (
	"errors"
	"io"
	"net"
	"sync"
)

// proxy stands before a server. It can be silent: what is sent then arrives when that is over, as after a fault of a
// network that nobody reports.
type proxy struct {
	net.Listener
	server string

	mu     sync.Mutex
	open   chan struct{} // closed while bytes pass
	conns  map[net.Conn]bool
	closed bool
}

// newProxy makes one before an address. The caller must Close it.
func newProxy(server string) (*proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &proxy{Listener: l, server: server, open: make(chan struct{}), conns: make(map[net.Conn]bool)}
	close(p.open)
	go func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			go p.join(from)
		}
	}()
	return p, nil
}

// silence stops the bytes; the function that it returns lets them pass again.
func (p *proxy) silence() (over func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	open := make(chan struct{})
	p.open = open
	return sync.OnceFunc(func() { close(open) })
}

// pass waits until bytes may pass.
func (p *proxy) pass() {
	p.mu.Lock()
	open := p.open
	p.mu.Unlock()
	<-open
}

// keep notes a connection, which Close closes; false: it has.
func (p *proxy) keep(conn net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		conn.Close()
		return false
	}
	p.conns[conn] = true
	return true
}

// end closes a connection that is kept.
func (p *proxy) end(conn net.Conn) {
	conn.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, conn)
}

// join joins a connection with one to the server.
func (p *proxy) join(from net.Conn) {
	if !p.keep(from) {
		return
	}
	defer p.end(from)
	p.pass()
	to, err := net.Dial("tcp", p.server)
	if err != nil || !p.keep(to) {
		return
	}
	defer p.end(to)
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{from, to}, {to, from}} {
		both.Go(func() {
			_, _ = io.Copy(gated{p, way[1]}, way[0])
			way[0].Close()
			way[1].Close()
		})
	}
	both.Wait()
}

// gated is a connection to which bytes are written when they may pass.
type gated struct {
	p  *proxy
	to net.Conn
}

func (g gated) Write(b []byte) (int, error) {
	g.p.pass()
	return g.to.Write(b)
}

// Close ends it with all its connections.
func (p *proxy) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	var errs []error
	for conn := range p.conns {
		if err := conn.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
	}
	return errors.Join(append(errs, p.Listener.Close())...)
}
