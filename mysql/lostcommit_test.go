package mysqllock

import (
	"bytes"
	"cmp"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// cutter stands between a Store and its server, and does something to the next
// commit, or to another statement.
type cutter struct {
	listener net.Listener
	server   string
	next     atomic.Pointer[cut]
	unkilled atomic.Bool
	asks     atomic.Pointer[func()] // called before a question for a mark reaches the server

	mu    sync.Mutex
	lines []net.Conn
}

// cut is what is done to a statement.
type cut struct {
	at      string // a part of it; empty: a commit
	then    func() // called when it is delivered, before the connection is closed
	deliver bool   // the server gets it
	hang    bool   // nothing is answered, instead of the connection being closed
	stay    bool   // the server is not told that the client has gone
	late    bool   // delivered only after a while, and no KILL CONNECTION gets through until then
	reached chan struct{}
}

func newCutter(t testing.TB, server string) *cutter {
	t.Helper()
	c := &cutter{server: server}
	c.listener = accept(t, c.serve, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, line := range c.lines {
			_ = line.Close()
		}
	})
	return c
}

func (c *cutter) serve(client net.Conn) {
	server, err := net.Dial("tcp", c.server)
	if err != nil {
		_ = client.Close()
		return
	}
	c.mu.Lock()
	c.lines = append(c.lines, client, server)
	c.mu.Unlock()
	var lost atomic.Pointer[cut]
	go func() {
		defer client.Close()
		var b [16 << 10]byte
		for {
			n, err := server.Read(b[:])
			if x := lost.Load(); x != nil {
				if n > 0 && x.hang {
					continue
				}
				return
			}
			if err != nil {
				return
			}
			if _, err := client.Write(b[:n]); err != nil {
				return
			}
		}
	}()
	stay := false
	defer func() {
		if !stay {
			_ = server.Close()
		}
	}()
	var b [16 << 10]byte
	for {
		n, err := client.Read(b[:])
		if err != nil {
			return
		}
		if x := c.next.Load(); x != nil && bytes.Contains(b[:n], []byte(cmp.Or(x.at, "\x03COMMIT"))) { // COM_QUERY
			if c.next.CompareAndSwap(x, nil) {
				lost.Store(x)
				stay = x.stay
				close(x.reached)
				if x.late {
					c.unkilled.Store(true)
					_ = client.Close()
					time.Sleep(300 * time.Millisecond)
					c.unkilled.Store(false)
				}
				if x.deliver {
					_, _ = server.Write(b[:n])
				}
				if x.then != nil {
					x.then()
					_ = client.Close()
				}
				if !x.deliver && !x.hang {
					_ = client.Close()
				}
				_, _ = io.Copy(io.Discard, client)
				return
			}
		}
		if f := c.asks.Load(); f != nil && bytes.Contains(b[:n], []byte("SELECT token FROM `rowlock_run`")) {
			(*f)()
		}
		if c.unkilled.Load() && bytes.Contains(b[:n], []byte("KILL CONNECTION")) {
			continue
		}
		if _, err := server.Write(b[:n]); err != nil {
			return
		}
	}
}

// onCommit says what happens to the next commit.
func (c *cutter) onCommit(x cut) *cut {
	x.reached = make(chan struct{})
	c.next.Store(&x)
	return &x
}

// cutStore is a Store behind a cutter, with a pool of its own or on the caller's.
func (l *lab) cutStore(t testing.TB, own bool) (*Store, *cutter) {
	t.Helper()
	l.store()
	c := newCutter(t, l.config.Addr)
	config := l.config.Clone()
	config.Addr = c.listener.Addr().String()
	var s *Store
	var err error
	if own {
		s, err = Open(config.FormatDSN(), Options{Strategy: l.strategy})
	} else {
		s, err = New(l.open(config), Options{Strategy: l.strategy})
	}
	must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s, c
}
