package mysqllock

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"fmt"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
)

// storeAt is a store without tables for which the server's clock stands still at a Unix time. The Store brings each session to
// the server's own time; here a connection changes that statement, and the look at what it did.
func storeAt(t testing.TB, config *mysql.Config, o Options, seconds int64) *Store {
	t.Helper()
	connector, err := mysql.NewConnector(config.Clone())
	must(t, err)
	db := sql.OpenDB(clockConnector{connector, strings.NewReplacer(
		"timestamp=DEFAULT", fmt.Sprintf("timestamp=%d", seconds),
		"TIMESTAMPDIFF(SECOND,NOW(),SYSDATE()) BETWEEN -10 AND 10", "1")})
	t.Cleanup(func() { _ = db.Close() })
	s, err := New(db, o)
	must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

type clockConnector struct {
	sqldriver.Connector
	at *strings.Replacer
}

func (c clockConnector) Connect(ctx context.Context) (sqldriver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &clockConn{mysqlConn: conn.(mysqlConn), at: c.at}, nil
}

type clockConn struct {
	mysqlConn
	at *strings.Replacer
}

func (c *clockConn) ExecContext(ctx context.Context, s string, args []sqldriver.NamedValue) (sqldriver.Result, error) {
	return c.mysqlConn.ExecContext(ctx, c.at.Replace(s), args)
}

func (c *clockConn) QueryContext(ctx context.Context, s string, args []sqldriver.NamedValue) (sqldriver.Rows, error) {
	return c.mysqlConn.QueryContext(ctx, c.at.Replace(s), args)
}
