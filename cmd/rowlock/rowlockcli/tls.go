package rowlockcli

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"strings"

	"github.com/go-sql-driver/mysql"
)

// tlsFiles are those by which this program knows its server, and the server this program: --tls-ca, --tls-cert, --tls-key.
type tlsFiles struct{ ca, cert, key string }

// check refuses what cannot be meant.
func (f tlsFiles) check(a address) error {
	switch tls := a.parameter("tls"); {
	case f == tlsFiles{}:
		return nil
	case (f.cert == "") != (f.key == ""):
		return invalid("--tls-cert and --tls-key (ROWLOCK_TLS_CERT, ROWLOCK_TLS_KEY) go together: name both files, or none")
	case a.kind != "mysql":
		return invalid("--tls-ca, --tls-cert and --tls-key are for MySQL; in a URL of MongoDB it is tls=true&tlsCAFile=FILE&tlsCertificateKeyFile=FILE")
	case tls != "" && tls != "1" && !strings.EqualFold(tls, "true"):
		return invalid("the address has tls=%s, but --tls-ca, --tls-cert and --tls-key need a server with a good certificate: leave one of them out", tls)
	}
	return nil
}

// use is the driver's configuration with TLS by these files, if there are any.
func (f tlsFiles) use(c *mysql.Config) (*mysql.Config, error) {
	if (f == tlsFiles{}) {
		return c, nil
	}
	config, err := f.load()
	if err != nil {
		return nil, &ExitError{Code: exitConfig, Err: err}
	}
	c = c.Clone()
	c.TLS, c.TLSConfig = config, ""
	return c, nil
}

// load reads the files. The server's name is set by the driver.
func (f tlsFiles) load() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if f.ca != "" {
		text, err := os.ReadFile(f.ca)
		if err != nil {
			return nil, fmt.Errorf("--tls-ca: %w", err)
		}
		if config.RootCAs = x509.NewCertPool(); !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("--tls-ca: %s has no certificate in PEM: it begins with -----BEGIN CERTIFICATE-----", f.ca)
		}
	}
	if f.cert != "" {
		pair, err := tls.LoadX509KeyPair(f.cert, f.key)
		if err != nil {
			return nil, fmt.Errorf("--tls-cert and --tls-key: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}
