package fault

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"syscall"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
)

// line is the way to one member of the server:
//
//	client - relay - toxiproxy - member
//
// toxiproxy knows no statements and never lets a client go before its request has
// left; the relay does.
type line struct {
	member string
	addr   string

	mu     sync.Mutex
	toxic  *toxiproxy.Proxy
	listen net.Listener // nil: connections are refused
	relays map[*relay]bool
	closed bool
	choose *chance        // what happens to single requests and replies; nil: nothing
	silent chan struct{}  // not nil: not even the end of a connection passes, until it is closed
	late   sync.WaitGroup // requests that are held back
}

func newLine(member string) (*line, error) {
	l := &line{member: member, relays: map[*relay]bool{}}
	if err := l.renew(); err != nil {
		return nil, err
	}
	// Below the ports of outgoing connections, so that the port is still free when
	// connections are no longer refused; and beside those that testenv takes.
	for range 100 {
		l.addr = fmt.Sprintf("127.0.0.1:%d", 12000+rand.IntN(8000))
		if l.up() == nil {
			return l, nil
		}
	}
	l.toxic.Stop()
	return nil, fmt.Errorf("proxy before %s: no free port", member)
}

// renew puts a new toxiproxy in the place of the one that is there, if any, and
// resets all connections.
func (l *line) renew() error {
	toxic := toxiproxy.NewProxy(shaper(), l.member, "127.0.0.1:0", l.member)
	if err := toxic.Start(); err != nil {
		return fmt.Errorf("proxy before %s: %w", l.member, err)
	}
	l.mu.Lock()
	l.toxic = toxic
	l.mu.Unlock()
	l.cut()
	return nil
}

func (l *line) shape() *toxiproxy.Proxy {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.toxic
}

// bounded does something with toxiproxy, which can lock itself up when a connection
// ends at the wrong moment: then there is another.
func (l *line) bounded(do func(*toxiproxy.ToxicCollection) error) error {
	toxic, done := l.shape(), make(chan error, 1)
	go func() { done <- do(toxic.Toxics) }()
	select {
	case err := <-done:
		return err
	case <-time.After(8 * time.Second): // more than it gives a connection to take what is left
		return l.renew()
	}
}

// up lets connections be made again.
func (l *line) up() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.listen != nil || l.closed {
		return nil
	}
	listen, err := net.Listen("tcp", l.addr)
	for end := time.Now().Add(5 * time.Second); len(l.relays) > 0 && err != nil && errors.Is(err, syscall.EADDRINUSE) && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
		listen, err = net.Listen("tcp", l.addr)
	}
	if err != nil {
		return err
	}
	l.listen = listen
	go func() {
		for {
			c, err := listen.Accept()
			if err != nil {
				return
			}
			go l.serve(c)
		}
	}()
	return nil
}

// down refuses new connections. Those that are there stay.
func (l *line) down() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.listen != nil {
		_ = l.listen.Close()
		l.listen = nil
	}
}

// cut resets all connections, those excepted whose client is gone.
func (l *line) cut() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for r := range l.relays {
		if !r.stranded.Load() {
			r.reset()
			n++
		}
	}
	return n
}

// with sets what happens to single requests and replies; nil: nothing.
func (l *line) with(c *chance) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.choose = c
}

func (l *line) chance() *chance {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.choose
}

// hush keeps the end of a connection from passing too, until noise.
func (l *line) hush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.silent == nil && !l.closed {
		l.silent = make(chan struct{})
	}
}

func (l *line) noise() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.silent != nil {
		close(l.silent)
		l.silent = nil
	}
}

// bury swallows from now on what goes over the connections that are there, until the
// function that it returns resets them.
func (l *line) bury() (exhume func(), n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	until := make(chan struct{})
	var mine []*relay
	for r := range l.relays {
		if !r.stranded.Load() && r.dead.CompareAndSwap(nil, &until) {
			mine = append(mine, r)
		}
	}
	return func() {
		for _, r := range mine {
			r.reset()
		}
		close(until)
	}, len(mine)
}

// heard waits until the end of a connection passes.
func (l *line) heard() {
	l.mu.Lock()
	silent := l.silent
	l.mu.Unlock()
	if silent != nil {
		<-silent
	}
}

func (l *line) close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.down()
	l.noise()
	l.mu.Lock()
	for r := range l.relays {
		r.reset()
	}
	toxic := l.toxic
	l.mu.Unlock()
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		toxic.Stop()
	}()
	select {
	case <-stopped:
	case <-time.After(time.Second): // see bounded
	}
}

// add makes toxiproxy treat what passes in both directions, or in one.
func (l *line) add(kind string, attributes map[string]any, streams ...string) error {
	if len(streams) == 0 {
		streams = []string{"upstream", "downstream"}
	}
	for _, stream := range streams {
		text, err := json.Marshal(map[string]any{"type": kind, "stream": stream, "toxicity": 1, "attributes": attributes})
		if err == nil {
			err = l.bounded(func(c *toxiproxy.ToxicCollection) error {
				_, err := c.AddToxicJson(strings.NewReader(string(text)))
				return err
			})
		}
		if err != nil {
			return fmt.Errorf("%s: %w", kind, err)
		}
	}
	return nil
}
