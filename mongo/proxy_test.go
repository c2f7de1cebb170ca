package mongolock

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/rowlock/rowlock/internal/testserver"
)

// proxy stands between a client and a mongod, and can keep a command or its
// reply back.
type proxy struct {
	t      testing.TB
	listen net.Listener
	server string

	mu      sync.Mutex
	hold    []byte        // commands that contain this are kept
	skip    int           // but not the first ones
	drop    []byte        // the connection is cut after these were executed
	drops   int           // so many of them
	strand  []byte        // the connection is cut while these are on their way
	then    func()        // before that
	arrive  chan struct{} // closed: it arrives
	free    chan struct{} // closed: what is kept goes on
	kept    int
	replies bytes.Buffer   // to commands that were kept
	pooled  map[*bool]bool // the connections of the pool: whether what goes over them is lost, guarded by mu
}

// newProxy returns a proxy before the server of uri, and the uri of the proxy.
func newProxy(t testing.TB, uri string) (*proxy, string) {
	t.Helper()
	u, err := url.Parse(uri)
	if err != nil {
		t.Fatal(err)
	}
	listen, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{t: t, listen: listen, server: u.Host, free: make(chan struct{}), arrive: make(chan struct{}), pooled: make(map[*bool]bool)}
	t.Cleanup(func() { _ = listen.Close(); p.letGo() })
	go func() {
		for {
			c, err := listen.Accept()
			if err != nil {
				return
			}
			go p.serve(c)
		}
	}()
	return p, "mongodb://" + listen.Addr().String() + "/?directConnection=true"
}

// keep holds every command from now on that contains text.
func (p *proxy) keep(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hold, p.free = []byte(text), make(chan struct{})
}

// keepAfter is keep, but for the first n.
func (p *proxy) keepAfter(n int, text string) {
	p.keep(text)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.skip = n
}

// deaden loses all that goes over the connections of the pool from now on, in both
// directions, as a firewall does that has forgotten them. It returns their number. Those
// on which the driver watches the server, and new ones, work.
func (p *proxy) deaden() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for dead := range p.pooled {
		*dead = true
	}
	return len(p.pooled)
}

// cut breaks the client's connection while the next command that contains text is
// on its way: it arrives when arrived or letGo is called. Before the client
// notices, then is called, if it is not nil.
func (p *proxy) cut(text string, then func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.strand, p.then, p.arrive = []byte(text), then, make(chan struct{})
}

// arrived sends on what was on its way when its connection was cut.
func (p *proxy) arrived() {
	p.mu.Lock()
	defer p.mu.Unlock()
	shut(p.arrive)
}

func shut(c chan struct{}) {
	select {
	case <-c:
	default:
		close(c)
	}
}

// pass lets new commands through; what was kept stays.
func (p *proxy) pass() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hold = nil
}

// letGo sends on what was kept.
func (p *proxy) letGo() {
	p.mu.Lock()
	defer p.mu.Unlock()
	shut(p.free)
	shut(p.arrive)
}

// lose cuts the connection instead of handing on the reply to the next command
// that contains text.
func (p *proxy) lose(text string) { p.loseNext(1, text) }

// loseNext is lose for the next n.
func (p *proxy) loseNext(n int, text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drop, p.drops = []byte(text), n
}

// answered waits for a reply to a kept command that contains text.
func (p *proxy) answered(text string) bool {
	for range 2000 {
		p.mu.Lock()
		found := bytes.Contains(p.replies.Bytes(), []byte(text))
		p.mu.Unlock()
		if found {
			return true
		}
		time.Sleep(10 * time.Millisecond)
	}
	return false
}

// waitKept waits until n commands are kept, as long as a busy machine may take.
func (p *proxy) waitKept(n int) {
	p.t.Helper()
	if !p.keeps(n, 30*time.Second) {
		p.t.Fatalf("the proxy kept fewer than %d commands", n)
	}
}

// keeps reports whether n commands are kept within d.
func (p *proxy) keeps(n int, d time.Duration) bool {
	for end := time.Now().Add(d); ; time.Sleep(2 * time.Millisecond) {
		p.mu.Lock()
		kept := p.kept
		p.mu.Unlock()
		if kept >= n || time.Now().After(end) {
			return kept >= n
		}
	}
}

// untilKept is a context whose time is over when n commands are kept, so that a call ends
// in the middle of them and not before, however slow the machine is. It is over after half
// a minute in any case.
func (p *proxy) untilKept(n int) context.Context {
	o := &overContext{Context: p.t.Context(), deadline: time.Now().Add(30 * time.Second), done: make(chan struct{})}
	go func() {
		p.keeps(n, 30*time.Second)
		close(o.done)
	}()
	return o
}

// overContext has a deadline, and passes it when done is closed.
type overContext struct {
	context.Context
	deadline time.Time
	done     chan struct{}
}

func (o *overContext) Deadline() (time.Time, bool) { return o.deadline, true }
func (o *overContext) Done() <-chan struct{}       { return o.done }

func (o *overContext) Err() error {
	select {
	case <-o.done:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

func (p *proxy) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", p.server)
	if err != nil {
		return
	}
	defer server.Close()
	var mu sync.Mutex
	late, cut := false, false
	dead := new(bool)
	isDead := func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return *dead
	}
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.pooled, dead)
	}()
	go func() { // replies
		buf := make([]byte, 64<<10)
		for {
			n, err := server.Read(buf)
			if err == nil && isDead() {
				continue
			}
			mu.Lock()
			isLate, isCut := late, cut
			mu.Unlock()
			if isLate {
				p.mu.Lock()
				p.replies.Write(buf[:n])
				p.mu.Unlock()
			}
			if isCut && n > 0 {
				_ = client.Close()
				return
			}
			if _, werr := client.Write(buf[:n]); err != nil || werr != nil && !isLate {
				return
			}
		}
	}()
	for {
		message, err := readMessage(client)
		if err != nil {
			return
		}
		if isDead() {
			continue
		}
		p.mu.Lock()
		if !bytes.Contains(message, []byte("hello")) && !bytes.Contains(message, []byte("isMaster")) {
			p.pooled[dead] = true
		}
		free, then := p.free, p.then
		hold := p.hold != nil && bytes.Contains(message, p.hold)
		if hold && p.skip > 0 {
			p.skip--
			hold = false
		}
		strand := p.strand != nil && bytes.Contains(message, p.strand)
		if strand {
			p.strand, p.then, free = nil, nil, p.arrive
		}
		drop := p.drops > 0 && bytes.Contains(message, p.drop)
		if drop {
			p.drops--
		}
		if hold || strand {
			p.kept++
		}
		p.mu.Unlock()
		mu.Lock()
		late, cut = late || hold || strand, cut || drop
		mu.Unlock()
		if strand {
			if then != nil {
				then()
			}
			_ = client.Close()
		}
		if hold || strand {
			<-free // even if the client is gone by now
		}
		if _, err := server.Write(message); err != nil {
			return
		}
		if hold || strand {
			// The client has given up long ago: stay for the reply.
			time.Sleep(5 * time.Second)
			return
		}
	}
}

func readMessage(c net.Conn) ([]byte, error) {
	head := make([]byte, 4)
	if _, err := io.ReadFull(c, head); err != nil {
		return nil, err
	}
	size := int(head[0]) | int(head[1])<<8 | int(head[2])<<16 | int(head[3])<<24
	message := make([]byte, size)
	copy(message, head)
	_, err := io.ReadFull(c, message[4:])
	return message, err
}

// behindProxy opens a Store whose commands go through a proxy, and one beside it.
func behindProxy(t *testing.T, opts ...*options.ClientOptions) (p *proxy, s, beside *Store) {
	t.Helper()
	return behindProxyOf(t, testserver.DSN(t, testserver.Mongo), opts...)
}

func behindProxyOf(t *testing.T, uri string, opts ...*options.ClientOptions) (p *proxy, s, beside *Store) {
	t.Helper()
	p, proxied := newProxy(t, uri)
	db := database(t, proxied, opts...)
	s = open(t, db, Options{})
	beside, err := New(connect(t, uri).Database(db.Name()).Collection("locks"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	granted(t, beside, request("warm"))
	if _, err := s.Inspect(t.Context(), []string{"warm"}); err != nil { // the check of the first use
		t.Fatal(err)
	}
	return p, s, beside
}
