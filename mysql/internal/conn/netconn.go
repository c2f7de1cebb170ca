package conn

import (
	"cmp"
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"net"

	"github.com/go-sql-driver/mysql"
)

// On connections of its own pool a Store knows the network connection below. Its port
// tells the server's sessions apart (see silence.go), and closing it ends a commit that
// no context ends (see transaction.finish).

// netConn is a connection of the driver that knows its network connection.
type netConn struct {
	DriverConn
	net net.Conn
}

// DriverConn is what the driver's connections can do.
type DriverConn interface {
	sqldriver.Conn
	sqldriver.ConnBeginTx
	sqldriver.ConnPrepareContext
	sqldriver.ExecerContext
	sqldriver.NamedValueChecker
	sqldriver.Pinger
	sqldriver.QueryerContext
	sqldriver.SessionResetter
	sqldriver.Validator
}

// netConnector makes netConns. A network that the program registered with the driver is
// dialled by the driver, and has connections of the usual kind.
type netConnector struct {
	sqldriver.Connector
	late      *lateness
	greetings *greetings
	refusals  *refusals
}

// NewConnector makes connections whose network connection is known: those that it dials itself, or by the DialFunc that
// config has.
func NewConnector(config *mysql.Config) (sqldriver.Connector, error) {
	dial := config.DialFunc
	if dial == nil && (config.Net == "tcp" || config.Net == "unix") {
		dial = new(net.Dialer).DialContext
	}
	g := &greetings{address: config.Addr}
	if dial != nil {
		config.DialFunc = g.noting(dial)
	}
	r := &refusals{Logger: cmp.Or[mysql.Logger](config.Logger, &mysql.NopLogger{})}
	config.Logger = r
	c, err := mysql.NewConnector(config)
	return netConnector{c, &lateness{}, g, r}, err
}

// Connect implements driver.Connector of database/sql.
func (n netConnector) Connect(ctx context.Context) (sqldriver.Conn, error) {
	return n.greetings.bounded(ctx, func(ctx context.Context) (sqldriver.Conn, error) { return n.late.connect(ctx, n.connect) })
}

func (n netConnector) connect(ctx context.Context) (sqldriver.Conn, error) {
	var nc net.Conn
	c, err := n.Connector.Connect(context.WithValue(ctx, dialKey{}, &nc))
	if nc != nil {
		n.greetings.accepted.Add(-1)
	}
	if err = n.refusals.why(err); err != nil {
		return nil, err
	}
	if d, ok := c.(DriverConn); ok && nc != nil {
		return &netConn{DriverConn: d, net: nc}, nil
	}
	return c, nil
}

// netConnOf is the network connection below, nil if it is not known.
func netConnOf(sc *sql.Conn) (nc net.Conn, err error) {
	err = sc.Raw(func(dc any) error {
		if n, ok := dc.(*netConn); ok {
			nc = n.net
		}
		return nil
	})
	return nc, err
}

// KnowsNet reports whether the network connection is known.
func (c *Conn) KnowsNet() bool { return c.net != nil }
