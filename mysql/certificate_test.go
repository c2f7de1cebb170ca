package mysqllock

import (
	"crypto/tls"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/testserver"
)

// TestACertificateThatCannotBeVerified ends a wait at a first use, as a wrong password does: the server's is signed by itself, and so is
// the client's.
func TestACertificateThatCannotBeVerified(t *testing.T) {
	t.Parallel()
	mine := testserver.Certificate(t)
	for _, strategy := range testserver.Some(t, VersionColumn, UniqueInsert, SelectForUpdate) { // what MySQL makes when it is installed has a certificate
		t.Run(strategy.String(), func(t *testing.T) {
			l := newLab(t, testserver.MySQL, strategy)
			ofOpen := func(c *mysql.Config) *Store { return openWith(t, c.FormatDSN(), l.options()) }
			ofNew := func(c *mysql.Config) *Store {
				s, err := New(l.open(c), l.options())
				must(t, err)
				t.Cleanup(func() { _ = s.Close() })
				return s
			}
			for name, tc := range map[string]struct {
				config *tls.Config
				open   func(*mysql.Config) *Store
			}{
				"Open, the server's":        {&tls.Config{ServerName: "127.0.0.1"}, ofOpen},
				"Open, the client's":        {&tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{mine}}, ofOpen},
				"New, the server's":         {&tls.Config{ServerName: "127.0.0.1"}, ofNew},
				"New, the client's, TLS1.2": {&tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{mine}, MaxVersion: tls.VersionTLS12}, ofNew}, // with 1.3 the driver tells nobody
			} {
				strict := l.config.Clone()
				must(t, mysql.RegisterTLSConfig(l.config.DBName+name, tc.config))
				defer mysql.DeregisterTLSConfig(l.config.DBName + name)
				strict.TLSConfig = l.config.DBName + name
				s := tc.open(strict)
				c, err := rowlock.New(s, rowlock.Options{ReapInterval: -1})
				must(t, err)
				ctx := patient(t)
				_, err = c.Acquire(ctx, "k")
				if !driver.IsLasting(err) || !driver.IsNotApplied(err) || ctx.Err() != nil || !strings.Contains(err.Error(), "tls: ") || !strings.Contains(err.Error(), "look at the certificates") {
					t.Errorf("%s: %v: lasts %v, nothing done %v, want an error at once", name, err, driver.IsLasting(err), driver.IsNotApplied(err))
				}
				must(t, c.Close(patient(t)))
			}
		})
	}
}
