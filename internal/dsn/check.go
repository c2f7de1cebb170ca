package dsn

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/go-sql-driver/mysql"

	"github.com/rowlock/rowlock/internal/input"
)

// Check refuses fields that nobody can mean.
func Check(c *mysql.Config) error {
	for _, field := range []struct{ name, value string }{{"user", c.User}, {"password", c.Passwd}, {"address", c.Addr}} {
		if found := input.Control(field.value); found != "" {
			return fmt.Errorf("the %s has %s in it: leave it out", field.name, found)
		}
	}
	if fault := input.Fault(c.DBName); fault != "" {
		return fmt.Errorf("the database %q %s: leave it out", c.DBName, fault)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Params)) {
		if foreignParameter(name) {
			return fmt.Errorf("the parameter %q is another driver's, this one would send it as SET %s=…: leave it out (TLS is tls=true, or the name of a registered tls.Config)", name, name)
		}
	}
	return nil
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
