package fault

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"
	"sync"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/Shopify/toxiproxy/v2/toxics"
	"github.com/go-sql-driver/mysql"
	"github.com/rs/zerolog"
	"github.com/rs/zerolog/log"

	"github.com/rowlock/rowlock/dev/testenv"
)

// Proxy stands between one client process and the server, and has one address for
// each of its members. Behind each stands toxiproxy, which makes what passes slow or
// silent; what happens to whole connections and to single requests and replies
// happens before it (see line).
type Proxy struct {
	dsn     string
	leaving string
	lines   []*line // by member; of a cluster of MySQL or MariaDB by address: the one that cuts, the one that leaves
}

// shaper is what toxiproxy asks for beside a proxy: where metrics and logs go.
var shaper = sync.OnceValue(func() *toxiproxy.ApiServer {
	log.Logger = zerolog.Nop() // some of its parts write there, whatever it is given
	return toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
})

// NewProxy returns a proxy before all members of the server. The caller must Close it.
func NewProxy(s *testenv.Server) (*Proxy, error) {
	members, err := addresses(s)
	if err != nil {
		return nil, err
	}
	p := &Proxy{dsn: s.DSN(), leaving: s.LeavingDSN()}
	for _, member := range members {
		l, err := newLine(member)
		if err != nil {
			p.Close()
			return nil, err
		}
		p.lines = append(p.lines, l)
	}
	if !isMongo(s.Kind()) {
		p.dsn = strings.Replace(p.dsn, members[0], p.lines[0].addr, 1)
	}
	if p.leaving != "" {
		p.leaving = strings.Replace(p.leaving, members[1], p.lines[1].addr, 1)
	}
	return p, nil
}

// DSN is the server's DSN with the proxy's address, for MySQL and MariaDB. For
// MongoDB it is the server's own: there the client dials by Addrs.
func (p *Proxy) DSN() string { return p.dsn }

// LeavingDSN is that of a cluster's address that leaves connections to the primary before open; empty: it is no cluster
// of MySQL or MariaDB.
func (p *Proxy) LeavingDSN() string { return p.leaving }

// Addrs gives the proxy's address for each member's, for a Dialer: the members of a
// replica set name each other to the client, by their own addresses.
func (p *Proxy) Addrs() map[string]string {
	m := make(map[string]string, len(p.lines))
	for _, l := range p.lines {
		m[l.member] = l.addr
	}
	return m
}

// Close ends it and all its connections.
func (p *Proxy) Close() {
	for _, l := range p.lines {
		l.close()
	}
}

// addresses are those of the members, or those that lead to the primary of a cluster.
func addresses(s *testenv.Server) ([]string, error) {
	if isMongo(s.Kind()) {
		u, err := url.Parse(s.DSN())
		if err != nil {
			return nil, err
		}
		return strings.Split(u.Host, ","), nil
	}
	var all []string
	for _, dsn := range []string{s.DSN(), s.LeavingDSN()} {
		if dsn == "" {
			continue
		}
		c, err := mysql.ParseDSN(dsn)
		if err != nil {
			return nil, err
		}
		all = append(all, c.Addr)
	}
	return all, nil
}

// forget undoes what makes lines slow or silent: what came last goes first. In the other order toxiproxy (2.5.0) loses count of a
// connection that the first toxic is through with and the second is not, and ends the process when the next toxic
// comes; Toxics.ResetToxics removes the first one first.
func forget(ctx context.Context, lines []*line) error {
	errs := make([]error, len(lines))
	var all sync.WaitGroup
	for i, l := range lines {
		all.Go(func() {
			errs[i] = l.bounded(func(c *toxiproxy.ToxicCollection) error {
				for _, toxic := range slices.Backward(c.GetToxicArray()) {
					err := c.RemoveToxic(context.WithoutCancel(ctx), toxic.(*toxics.ToxicWrapper).Name)
					if err != nil && !errors.Is(err, toxiproxy.ErrToxicNotFound) { // another fault that ends now may have removed it
						return err
					}
				}
				return nil
			})
		})
	}
	all.Wait()
	return errors.Join(errs...)
}
