package fault

import (
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// chance says what happens to requests and replies, each with a probability. What
// is one read of a connection is taken for one of them: both protocols wait for the
// reply before the next request.
type chance struct {
	drop float64 // a reply vanishes, and the connection is reset
	late float64 // a request is held back for hold, the connection to the client is reset meanwhile
	hold time.Duration

	mu    sync.Mutex
	rand  *rand.Rand
	count int
}

// hit draws, and counts what it hit.
func (c *chance) hit(share float64) bool {
	if share == 0 {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.rand.Float64() >= share {
		return false
	}
	c.count++
	return true
}

// times draws for how long a request is held back, and when the client loses its
// connection.
func (c *chance) times() (hold, reset time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	hold = time.Duration((0.2 + 0.8*c.rand.Float64()) * float64(c.hold))
	return hold, time.Duration(0.9 * c.rand.Float64() * float64(hold))
}

func (c *chance) hits() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.count
}

// relay is one connection.
type relay struct {
	client, server net.Conn // server: toxiproxy
	stranded       atomic.Bool
	dead           atomic.Pointer[chan struct{}] // not nil: what comes is swallowed, and its end too until this is closed
}

// buried waits until the end of a dead connection may pass.
func (r *relay) buried() {
	if until := r.dead.Load(); until != nil {
		<-*until
	}
}

// reset ends both sides at once, without the farewell.
func (r *relay) reset() {
	resetConn(r.client)
	resetConn(r.server)
}

func resetConn(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Close()
}

func (l *line) serve(client net.Conn) {
	server, err := net.Dial("tcp", l.shape().Listen)
	if err != nil {
		resetConn(client)
		return
	}
	r := &relay{client: client, server: server}
	l.mu.Lock()
	if l.closed || l.listen == nil { // it came in just before
		l.mu.Unlock()
		r.reset()
		return
	}
	l.relays[r] = true
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.relays, r)
	}()
	var replies sync.WaitGroup
	replies.Go(func() { l.replies(r) })
	l.requests(r)
	l.heard()
	r.buried()
	_ = r.client.Close()
	// No more than the farewell: toxiproxy can lock itself up over a connection that
	// ends while it writes. What still comes is read, by replies.
	if tcp, ok := r.server.(*net.TCPConn); ok {
		_ = tcp.CloseWrite()
	}
	replies.Wait()
	_ = r.server.Close()
}

// requests passes on what the client sends.
func (l *line) requests(r *relay) {
	buf := make([]byte, 64<<10)
	for {
		n, err := r.client.Read(buf)
		if n > 0 && r.dead.Load() == nil {
			if c := l.chance(); c != nil && c.hit(c.late) {
				l.strand(r, c, buf[:n])
				return
			}
			if _, err := r.server.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// strand holds a request back. Its client is sent away; the request arrives all the
// same, on a connection that stays for a moment, so that the server executes it.
func (l *line) strand(r *relay, c *chance, request []byte) {
	l.late.Add(1)
	defer l.late.Done()
	r.stranded.Store(true)
	hold, reset := c.times()
	time.Sleep(reset)
	resetConn(r.client)
	time.Sleep(hold - reset)
	if _, err := r.server.Write(request); err == nil {
		time.Sleep(300 * time.Millisecond)
	}
}

// replies passes on what the server sends.
func (l *line) replies(r *relay) {
	buf := make([]byte, 64<<10)
	for {
		n, err := r.server.Read(buf)
		if n > 0 && r.dead.Load() == nil {
			if c := l.chance(); c != nil && !r.stranded.Load() && c.hit(c.drop) {
				r.reset()
				return
			}
			if _, err := r.client.Write(buf[:n]); err != nil {
				break
			}
		}
		if err != nil {
			break
		}
	}
	_, _ = io.Copy(io.Discard, r.server) // the client is gone; or the server, and this is its end
	if !r.stranded.Load() {
		l.heard()
		r.buried()
		_ = r.client.Close()
	}
}
