package mysqllock

import (
	"fmt"
	"maps"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/go-sql-driver/mysql"

	"github.com/rowlock/rowlock/driver"
)

const dsnForm = "user:password@tcp(host:3306)/database"

// parseDSN reads a DSN in the form of the driver, or a URL such as other programs
// take: mysql://user:password@host:3306/database?parameters.
func parseDSN(dsn string) (*mysql.Config, error) {
	if dsn == "" { // the driver would take the server of this machine
		return nil, fmt.Errorf("%w: the DSN is empty: it has the form %s", driver.ErrInvalid, dsnForm)
	}
	scheme, after, isURL := strings.Cut(dsn, "://")
	if isURL && (scheme == "mysql" || scheme == "mariadb") {
		if end := strings.IndexAny(after, "/?#"); end >= 0 && strings.Contains(after[end:], "@") {
			// In a password, half of which would be taken for the host and looked up.
			return nil, fmt.Errorf("%w: the DSN is a URL with an @ after its host: in user, password, database and parameters write @ as %%40, / as %%2F, ? as %%3F, # as %%23 and %% as %%25", driver.ErrInvalid)
		}
		u, err := url.Parse(dsn)
		if err != nil {
			return nil, fmt.Errorf("%w: the DSN is a URL that cannot be read: it has the form %s or %s://user:password@host:3306/database", driver.ErrInvalid, dsnForm, scheme)
		}
		port := u.Port()
		if port == "" {
			port = "3306"
		}
		password, _ := u.User.Password()
		config := mysql.NewConfig()
		config.User, config.Passwd, config.Net, config.Addr, config.DBName = u.User.Username(), password, "tcp", net.JoinHostPort(u.Hostname(), port), strings.TrimPrefix(u.Path, "/")
		dsn = config.FormatDSN()
		if u.RawQuery != "" {
			before, _, _ := strings.Cut(dsn, "?")
			dsn = before + "?" + u.RawQuery
		}
	}
	config, err := mysql.ParseDSN(dsn)
	if err != nil {
		return nil, fmt.Errorf("%w: DSN: %w: it has the form %s", driver.ErrInvalid, err, dsnForm)
	}
	for _, name := range slices.Sorted(maps.Keys(config.Params)) {
		if foreignParameter(name) {
			return nil, fmt.Errorf("%w: the parameter %q of the DSN is another driver's, this one would send it as SET %s=%s: leave it out (TLS is tls=true, or the name of a registered tls.Config)",
				driver.ErrInvalid, name, name, config.Params[name])
		}
	}
	return config, nil
}

// camelCase is how no variable of a server is written, but a parameter of JDBC, PDO or Doctrine is.
var camelCase = regexp.MustCompile(`[a-z][A-Z]|[^A-Za-z0-9_.@]`)

// foreignNames are parameters of other drivers that look like variables.
var foreignNames = []string{
	"ssl", "ssl_ca", "ssl_cert", "ssl_key", "ssl_mode", "sslmode", "sslaccept", "sslca", "sslcert", "sslidentity", "sslkey", "sslpassword", "sslrootcert",
	"connection_limit", "pool_timeout", "pool_size", "socket_timeout", "statement_cache_size", "application_name", "encrypt", "schema", "socket",
	"unix_socket", "driver", "pooling", "reconnect", "encoding",
}

// foreignParameter reports whether a parameter that go-sql-driver does not know, and so sends as a SET, is another driver's.
func foreignParameter(name string) bool {
	return camelCase.MatchString(name) || slices.Contains(foreignNames, strings.ToLower(name))
}
