package cluster

import (
	"context"
	"database/sql/driver"
	"net"

	"github.com/go-sql-driver/mysql"
)

// Connector makes connections to the server that takes writes. Closing it closes the Finder.
type Connector struct{ *Finder }

// tries is how many servers, or looks at one, a connection may cost.
const tries = 3

// Connect implements driver.Connector of database/sql.
func (c Connector) Connect(ctx context.Context) (dc driver.Conn, err error) {
	err = c.each(ctx, func(n *node) (err error) {
		dc, err = n.connector.Connect(ctx)
		return err
	})
	return dc, err
}

// Driver implements driver.Connector of database/sql.
func (Connector) Driver() driver.Driver { return mysql.MySQLDriver{} }

// Dial makes a network connection to the server that takes writes.
func (f *Finder) Dial(ctx context.Context) (nc net.Conn, err error) {
	err = f.each(ctx, func(n *node) (err error) {
		nc, err = n.dial(ctx, n.config.Net, n.config.Addr)
		return err
	})
	return nc, err
}

// each connects to the server that takes writes. Where that fails another may, so it is asked again.
func (f *Finder) each(ctx context.Context, connect func(*node) error) error {
	for try := 1; ; try++ {
		at, err := f.where(ctx)
		if err != nil {
			return err
		}
		err = connect(f.nodes[at])
		if err == nil || try == tries || ctx.Err() != nil || lasting(err) {
			return err
		}
		f.doubt(at)
	}
}
