package fault

import (
	"net/url"
	"strings"

	"github.com/go-sql-driver/mysql"

	"github.com/rowlock/rowlock/testenv"
)

// Proxy stands between one client process and the server, and has one address for
// each of its members.
type Proxy struct {
	dsn   string
	lines []*line
}

// NewProxy returns a proxy before all members of the server. The caller must Close it.
func NewProxy(s *testenv.Server) (*Proxy, error) { return nil, nil }

// DSN is the server's DSN with the proxy's address, for MySQL and MariaDB. For
// MongoDB it is the server's own: there the client dials by Addrs.
func (p *Proxy) DSN() string { return p.dsn }

// Addrs gives the proxy's address for each member's, for a dialer: the members of a
// replica set name each other to the client, by their own addresses.
func (p *Proxy) Addrs() map[string]string { return nil }

// Close ends it and all its connections.
func (p *Proxy) Close() {}

// addresses are those of the members.
func addresses(s *testenv.Server) ([]string, error) {
	if isMongo(s.Kind()) {
		u, err := url.Parse(s.DSN())
		if err != nil {
			return nil, err
		}
		return strings.Split(u.Host, ","), nil
	}
	c, err := mysql.ParseDSN(s.DSN())
	if err != nil {
		return nil, err
	}
	return []string{c.Addr}, nil
}

type line struct{}
