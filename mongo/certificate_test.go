package mongolock

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/testserver"
)

// TestACertificateThatCannotBeVerified ends a wait at a first use, as a wrong password does: the server's, and the client's for the
// server. Where another server of the list is only away it is worth a wait.
func TestACertificateThatCannotBeVerified(t *testing.T) {
	t.Parallel()
	server, _, _ := strings.Cut(strings.TrimPrefix(testserver.DSN(t, testserver.Mongo), "mongodb://"), "/")
	mine := testserver.Certificate(t)
	strict := behindTLS(t, server, &tls.Config{Certificates: []tls.Certificate{mine}})
	asks := behindTLS(t, server, &tls.Config{Certificates: []tls.Certificate{mine}, ClientAuth: tls.RequireAnyClientCert})
	for name, tc := range map[string]struct {
		uri    string
		config *tls.Config
		lasts  bool
	}{
		"the server's":              {"mongodb://" + strict + "/?directConnection=true", &tls.Config{}, true},
		"the client's":              {"mongodb://" + asks + "/?directConnection=true", &tls.Config{InsecureSkipVerify: true}, true},
		"of one, the other is away": {"mongodb://" + strict + "," + nobody(t) + "/?replicaSet=rs0", &tls.Config{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := New(connect(t, tc.uri, options.Client().SetTLSConfig(tc.config)).Database("app").Collection("locks"), Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			if !tc.lasts {
				results, err := s.Acquire(t.Context(), []driver.Request{request("k")})
				if err == nil {
					err = results[0].Err
				}
				if err == nil || driver.IsLasting(err) || !strings.Contains(err.Error(), "x509: ") {
					t.Errorf("%v: lasts %v", err, driver.IsLasting(err))
				}
				return
			}
			ctx, cancel := context.WithTimeout(t.Context(), testserver.Patience(t))
			defer cancel()
			_, err = locker(t, s, rowlock.Options{}).Acquire(ctx, "k")
			if !driver.IsLasting(err) || !driver.IsNotApplied(err) || !strings.Contains(err.Error(), "look at the certificates") {
				t.Errorf("%v: lasts %v, nothing done %v, want an error at once", err, driver.IsLasting(err), driver.IsNotApplied(err))
			}
		})
	}
}

// behindTLS is the address of something that speaks TLS and stands before a server.
func behindTLS(t *testing.T, server string, config *tls.Config) string {
	t.Helper()
	l, err := tls.Listen("tcp", "127.0.0.1:0", config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				if c.(*tls.Conn).Handshake() != nil {
					return
				}
				to, err := net.Dial("tcp", server)
				if err != nil {
					return
				}
				defer to.Close()
				go func() { _, _ = io.Copy(to, c); _ = to.Close() }()
				_, _ = io.Copy(c, to)
			}()
		}
	}()
	return l.Addr().String()
}

// nobody is an address at which nothing listens.
func nobody(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}
