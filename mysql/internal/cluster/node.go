package cluster

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mysql/internal/conn"
)

// node is one of the servers.
type node struct {
	f         *Finder
	i         int
	config    *mysql.Config
	connector sqldriver.Connector // of connections for others, which the Finder closes
	asked     *sql.DB             // by which it is asked; not closed at a change

	// under Finder.mu
	hung bool
	open map[net.Conn]bool // connections for others
}

// askedIdle is how long a connection by which a server was asked is kept for the next time.
const askedIdle = 10 * time.Second

func newNode(f *Finder, i int, config *mysql.Config) (*node, error) {
	if config.Net != "tcp" && config.Net != "unix" {
		return nil, fmt.Errorf("%w: network %q of %s: several servers are dialled by tcp or unix, not by a network that was registered", driver.ErrInvalid, config.Net, config.Addr)
	}
	n := &node{f: f, i: i, config: config, open: make(map[net.Conn]bool)}
	asking := config.Clone()
	asking.InterpolateParams = true
	plain, err := mysql.NewConnector(asking)
	if err != nil {
		return nil, fmt.Errorf("%w: DSN of %s: %w", driver.ErrInvalid, config.Addr, err)
	}
	n.asked = sql.OpenDB(plain)
	n.asked.SetConnMaxIdleTime(askedIdle)
	n.asked.SetMaxIdleConns(1)
	own := config.Clone()
	own.DialFunc = n.dial
	n.connector, err = conn.NewConnector(own)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%w: DSN of %s: %w", driver.ErrInvalid, config.Addr, err), n.asked.Close())
	}
	return n, nil
}

// look asks the server what it is.
func (n *node) look(ctx context.Context) (View, error) {
	c, err := n.asked.Conn(ctx)
	if err != nil {
		return View{}, err
	}
	defer c.Close()
	return Look(ctx, func(ctx context.Context, query string, scan func(*sql.Rows) error) error {
		rows, err := c.QueryContext(ctx, query)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			if err := scan(rows); err != nil {
				return err
			}
		}
		return rows.Err()
	})
}

// dial makes a connection that is closed when another server takes writes. One that is made too late is refused.
func (n *node) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	var d net.Dialer
	nc, err := d.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	t := &tracked{Conn: nc, n: n}
	n.f.mu.Lock()
	late := n.f.at != n.i
	if !late {
		n.open[t] = true
	}
	n.f.mu.Unlock()
	if late {
		return nil, errors.Join(fmt.Errorf("%s takes writes no more", addr), nc.Close())
	}
	return t, nil
}

// tracked is a network connection that its node knows while it is open.
type tracked struct {
	net.Conn
	n *node
}

// Close implements net.Conn.
func (t *tracked) Close() error {
	t.n.f.mu.Lock()
	delete(t.n.open, net.Conn(t))
	t.n.f.mu.Unlock()
	return t.Conn.Close()
}

// SyscallConn lets the driver look whether the server has closed the connection.
func (t *tracked) SyscallConn() (syscall.RawConn, error) {
	if c, ok := t.Conn.(syscall.Conn); ok {
		return c.SyscallConn()
	}
	return nil, errors.ErrUnsupported
}
