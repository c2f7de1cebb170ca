package side

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"

	"github.com/go-sql-driver/mysql"
	"go.mongodb.org/mongo-driver/v2/event"
)

// Meter counts the connections of a Rowlock: those that are open, and those that
// were used since Reset. Of MongoDB's it counts the driver's pool, not the
// connections by which the driver watches the servers.
type Meter struct {
	mu   sync.Mutex
	open map[any]bool // used since Reset?
	most int
}

func (m *Meter) opened(id any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.open == nil {
		m.open = map[any]bool{}
	}
	m.open[id] = false
	m.most = max(m.most, len(m.open))
}

func (m *Meter) closed(id any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.open, id)
}

func (m *Meter) used(id any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.open[id] = true
}

// Reset begins to count used connections, and the most that are open, anew.
func (m *Meter) Reset() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id := range m.open {
		m.open[id] = false
	}
	m.most = len(m.open)
}

// Open is the number of open connections.
func (m *Meter) Open() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.open)
}

// Most is the largest number of open connections since Reset.
func (m *Meter) Most() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.most
}

// Used is the number of connections that something was sent on since Reset and
// that are still open.
func (m *Meter) Used() (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, used := range m.open {
		if used {
			n++
		}
	}
	return n
}

var networks atomic.Int64

// address is a MySQL address whose connections are counted.
func (m *Meter) address(dsn string) (string, error) {
	config, err := mysql.ParseDSN(dsn)
	if err != nil {
		return "", err
	}
	network := config.Net
	config.Net = fmt.Sprintf("counted%d", networks.Add(1))
	mysql.RegisterDialContext(config.Net, func(ctx context.Context, address string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		counted := &countedConn{Conn: c, m: m}
		m.opened(counted)
		return counted, nil
	})
	return config.FormatDSN(), nil
}

type countedConn struct {
	net.Conn
	m *Meter
}

func (c *countedConn) Write(b []byte) (int, error) {
	c.m.used(c)
	return c.Conn.Write(b)
}

func (c *countedConn) Close() error {
	c.m.closed(c)
	return c.Conn.Close()
}

// pool counts the connections of a MongoDB client.
func (m *Meter) pool() *event.PoolMonitor {
	type id struct {
		address string
		number  int64
	}
	return &event.PoolMonitor{Event: func(e *event.PoolEvent) {
		who := id{e.Address, e.ConnectionID}
		switch e.Type {
		case event.ConnectionCreated:
			m.opened(who)
		case event.ConnectionClosed:
			m.closed(who)
		case event.ConnectionCheckedOut:
			m.used(who)
		}
	}}
}
