package mysqllock

import (
	"fmt"
	"net"
	"net/url"
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
	scheme, _, isURL := strings.Cut(dsn, "://")
	if isURL && (scheme == "mysql" || scheme == "mariadb") {
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
	return config, nil
}
