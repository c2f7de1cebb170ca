package handshake

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"testing"
	"time"
)

// issued makes a certificate that its own key, or that of an authority, has signed.
func issued(t *testing.T, name string, from, to time.Time, by *tls.Certificate) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name}, NotBefore: from, NotAfter: to,
		IsCA: by == nil, BasicConstraintsValid: true,
	}
	parent, signer := c, any(key)
	if by != nil {
		parent, signer = by.Leaf, by.PrivateKey
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

// TestLasts: what a client of crypto/tls is told by servers of many kinds.
func TestLasts(t *testing.T) {
	now := time.Now()
	authority := issued(t, "authority", now.Add(-time.Hour), now.Add(time.Hour), nil)
	good := issued(t, "db", now.Add(-time.Hour), now.Add(time.Hour), &authority)
	old := issued(t, "db", now.Add(-2*time.Hour), now.Add(-time.Hour), &authority)
	early := issued(t, "db", now.Add(time.Hour), now.Add(2*time.Hour), &authority)
	trusted := x509.NewCertPool()
	trusted.AddCert(authority.Leaf)
	speaks := func(c *tls.Config) func(net.Conn) {
		return func(n net.Conn) { _ = tls.Server(n, c).Handshake() }
	}
	says := func(text string) func(net.Conn) {
		return func(n net.Conn) { _, _ = n.Read(make([]byte, 4096)); _, _ = n.Write([]byte(text)) }
	}
	for name, tc := range map[string]struct {
		server func(net.Conn)
		client *tls.Config
		lasts  bool
	}{
		"unknown authority":              {speaks(&tls.Config{Certificates: []tls.Certificate{good}}), &tls.Config{ServerName: "db", RootCAs: x509.NewCertPool()}, true},
		"another name":                   {speaks(&tls.Config{Certificates: []tls.Certificate{good}}), &tls.Config{ServerName: "db2", RootCAs: trusted}, true},
		"expired":                        {speaks(&tls.Config{Certificates: []tls.Certificate{old}}), &tls.Config{ServerName: "db", RootCAs: trusted}, true},
		"not valid yet":                  {speaks(&tls.Config{Certificates: []tls.Certificate{early}}), &tls.Config{ServerName: "db", RootCAs: trusted}, true},
		"no name":                        {speaks(&tls.Config{Certificates: []tls.Certificate{good}}), &tls.Config{RootCAs: trusted}, true},
		"wants a certificate":            {speaks(&tls.Config{Certificates: []tls.Certificate{good}, ClientAuth: tls.RequireAnyClientCert, MaxVersion: tls.VersionTLS12}), &tls.Config{ServerName: "db", RootCAs: trusted}, true},
		"wants another certificate":      {speaks(&tls.Config{Certificates: []tls.Certificate{good}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: trusted, MaxVersion: tls.VersionTLS12}), &tls.Config{ServerName: "db", RootCAs: trusted, Certificates: []tls.Certificate{issued(t, "me", now.Add(-time.Hour), now.Add(time.Hour), nil)}}, true},
		"wants a certificate, TLS 1.3":   {speaks(&tls.Config{Certificates: []tls.Certificate{good}, ClientAuth: tls.RequireAnyClientCert}), &tls.Config{ServerName: "db", RootCAs: trusted}, true},
		"only TLS 1.3":                   {speaks(&tls.Config{Certificates: []tls.Certificate{good}, MinVersion: tls.VersionTLS13}), &tls.Config{ServerName: "db", RootCAs: trusted, MaxVersion: tls.VersionTLS12}, true},
		"only TLS 1.2":                   {speaks(&tls.Config{Certificates: []tls.Certificate{good}, MaxVersion: tls.VersionTLS12}), &tls.Config{ServerName: "db", RootCAs: trusted, MinVersion: tls.VersionTLS13}, true},
		"a web server":                   {says("HTTP/1.1 400 Bad Request\r\n\r\n"), &tls.Config{ServerName: "db"}, true},
		"a server of MySQL that is full": {says("\x17\x00\x00\x03\xff\x10\x04Too many connections"), &tls.Config{ServerName: "db"}, false},
		"closes":                         {says(""), &tls.Config{ServerName: "db"}, false},
		"closes in a record":             {says("\x16\x03\x03"), &tls.Config{ServerName: "db"}, false},
		"is going down":                  {says("\x15\x03\x03\x00\x02\x02\x50"), &tls.Config{ServerName: "db"}, false}, // internal error
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			go func() {
				n, err := l.Accept()
				if err == nil {
					tc.server(n)
					_ = n.Close()
				}
			}()
			n, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer n.Close()
			c := tls.Client(n, tc.client)
			if err = c.Handshake(); err == nil { // with TLS 1.3 the server's refusal comes after it
				_, err = c.Read(make([]byte, 1))
			}
			if err == nil || Lasts(err) != tc.lasts || Lasts(fmt.Errorf("connect: %w", err)) != tc.lasts {
				t.Errorf("%v (%T): lasts %v, want %v", err, err, Lasts(err), tc.lasts)
			}
		})
	}
	for _, err := range []error{nil, io.EOF, errors.New("invalid connection"), &net.OpError{Op: "dial", Err: errors.New("connection refused")}} {
		if Lasts(err) {
			t.Errorf("%v lasts", err)
		}
	}
	if !Lasts(x509.SystemRootsError{Err: errors.New("none")}) || !Lasts(tls.AlertError(42)) || Lasts(tls.AlertError(80)) {
		t.Error("errors by themselves")
	}
}
