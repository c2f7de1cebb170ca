package mysqllock

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"net"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/rowlock/rowlock/driver"
)

// The driver watches the context of each statement with a goroutine that it wakes
// before and after, which is a fiftieth of a quiet statement, or more. On
// connections of its own pool a Store needs no such watch: it knows the network
// connection below, and closes that when the context ends.

// lineConn is a connection of the driver that knows its network connection.
type lineConn struct {
	driverConn
	line net.Conn
}

// driverConn is what the driver's connections can do.
type driverConn interface {
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

type dialKey struct{}

// lineConnector makes lineConns. A network that the program registered with the
// driver is dialled by the driver, and has connections of the usual kind.
type lineConnector struct{ sqldriver.Connector }

func newLineConnector(config *mysql.Config) (sqldriver.Connector, error) {
	if config.DialFunc == nil && (config.Net == "tcp" || config.Net == "unix") {
		config.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
			var d net.Dialer
			line, err := d.DialContext(ctx, network, address)
			if into, ok := ctx.Value(dialKey{}).(*net.Conn); ok {
				*into = line
			}
			return line, err
		}
	}
	c, err := mysql.NewConnector(config)
	return lineConnector{c}, err
}

func (l lineConnector) Connect(ctx context.Context) (sqldriver.Conn, error) {
	var line net.Conn
	c, err := l.Connector.Connect(context.WithValue(ctx, dialKey{}, &line))
	if err != nil {
		return nil, err
	}
	if d, ok := c.(driverConn); ok && line != nil {
		return &lineConn{driverConn: d, line: line}, nil
	}
	return c, nil
}

// lineOf is the network connection below, nil if it is not known.
func lineOf(sc *sql.Conn) (line net.Conn, err error) {
	err = sc.Raw(func(dc any) error {
		if l, ok := dc.(*lineConn); ok {
			line = l.line
		}
		return nil
	})
	return line, err
}

// unwatched gives the context to send a statement with. Where the line is known it
// never ends: the line is closed when ctx does, by the caller at the time cut, or by
// what stop takes back. Otherwise it is ctx, for the driver to watch.
func (c *conn) unwatched(ctx context.Context) (sending context.Context, cut time.Time, stop func() bool) {
	if c.line == nil {
		return ctx, cut, func() bool { return true }
	}
	ends := driver.Untimed(ctx)
	if ends != ctx {
		cut, _ = ctx.Deadline()
	}
	return context.Background(), cut, context.AfterFunc(ends, func() { _ = c.line.Close() })
}
