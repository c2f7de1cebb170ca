package lab

import (
	"context"
	"errors"
	"net"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/rowlock/rowlock/dev/bench/internal/side"
)

// Far is a server behind proxies that pass everything on half a round trip later.
// They delay what is sent, not the opening of a connection, which costs one round
// trip more in a real network.
type Far struct {
	*Server
	relays []*relay
}

// Far puts a round trip of at least rtt between the clients of its Specs and the
// server. The caller closes it.
func (s *Server) Far(rtt time.Duration) (*Far, error) {
	members, err := s.members()
	if err != nil {
		return nil, err
	}
	distant := *s
	distant.closes = nil
	f := &Far{Server: &distant}
	via := map[string]string{}
	for _, m := range members {
		r, err := newRelay(m, rtt/2)
		if err != nil {
			f.Close()
			return nil, err
		}
		f.relays = append(f.relays, r)
		via[m] = r.listener.Addr().String()
	}
	if !s.sql {
		distant.spec.Via = via
		return f, nil
	}
	config, err := mysql.ParseDSN(s.spec.Address)
	if err != nil {
		f.Close()
		return nil, err
	}
	config.Addr = via[config.Addr]
	distant.spec.Address = config.FormatDSN()
	return f, nil
}

// Close ends the proxies with all their connections.
func (f *Far) Close() {
	for _, r := range f.relays {
		r.close()
	}
}

// members are the addresses of the server's nodes.
func (s *Server) members() ([]string, error) {
	if s.sql {
		config, err := mysql.ParseDSN(s.spec.Address)
		if err != nil {
			return nil, err
		}
		if config.Net != "tcp" {
			return nil, errors.New("the DSN does not name a TCP address, before which a proxy could stand")
		}
		return []string{config.Addr}, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	hosts, err := side.MongoHosts(ctx, s.spec)
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(s.spec.Address)
	if err != nil {
		return nil, err
	}
	return append(hosts, missing(strings.Split(u.Host, ","), hosts)...), nil
}

// missing are those of list that are not among known.
func missing(list, known []string) (out []string) {
	has := map[string]bool{}
	for _, k := range known {
		has[k] = true
	}
	for _, x := range list {
		if !has[x] {
			out = append(out, x)
		}
	}
	return out
}

// relay passes connections on, each direction delayed. (toxiproxy would do, with all
// that it requires; a delay is the one thing needed here.)
type relay struct {
	listener net.Listener
	to       string
	delay    time.Duration

	mu    sync.Mutex
	open  map[net.Conn]bool
	ended bool
	work  sync.WaitGroup
}

func newRelay(to string, delay time.Duration) (*relay, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &relay{listener: l, to: to, delay: delay, open: map[net.Conn]bool{}}
	r.work.Go(r.serve)
	return r, nil
}

func (r *relay) serve() {
	for {
		client, err := r.listener.Accept()
		if err != nil {
			return
		}
		if !r.keep(client) {
			return
		}
		r.work.Go(func() {
			defer r.drop(client)
			server, err := net.Dial("tcp", r.to)
			if err != nil || !r.keep(server) {
				return
			}
			defer r.drop(server)
			r.work.Go(func() { r.pump(server, client) })
			r.pump(client, server)
		})
	}
}

// keep notes an open connection; after close it closes it instead.
func (r *relay) keep(c net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		_ = c.Close()
		return false
	}
	r.open[c] = true
	return true
}

func (r *relay) drop(c net.Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.open, c)
	_ = c.Close()
}

// parcel is what was read at once, and when it is due on the other side.
type parcel struct {
	due  time.Time
	data []byte
}

// pump passes on what comes from one side until it ends, then the end.
func (r *relay) pump(from, to net.Conn) {
	road := make(chan parcel, 1024)
	r.work.Go(func() {
		defer close(road)
		for {
			data := make([]byte, 16<<10)
			n, err := from.Read(data)
			if n > 0 {
				road <- parcel{time.Now().Add(r.delay), data[:n]}
			}
			if err != nil {
				return
			}
		}
	})
	for p := range road {
		time.Sleep(time.Until(p.due))
		if _, err := to.Write(p.data); err != nil {
			_ = from.Close() // ends the reader
		}
	}
	_ = to.Close()
}

func (r *relay) close() {
	_ = r.listener.Close()
	r.mu.Lock()
	r.ended = true
	for c := range r.open {
		_ = c.Close()
	}
	r.mu.Unlock()
	r.work.Wait()
}
