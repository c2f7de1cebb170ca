package mysqllock

import (
	"database/sql"
	"errors"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
)

// TestForeignParameters: a parameter of another driver in the DSN is named by Open; one that the server refuses is called
// that at the first contact, on a pool of the program's too.
func TestForeignParameters(t *testing.T) {
	t.Parallel()
	for _, parameter := range []string{"useSSL=false", "sslmode=require", "ssl-mode=REQUIRED", "serverVersion=8.0", "characterEncoding=utf8", "connection_limit=5", "allowPublicKeyRetrieval=true"} {
		name, _, _ := strings.Cut(parameter, "=")
		for _, dsn := range []string{"u:p@tcp(db:3306)/app?parseTime=true&" + parameter, "mysql://u:p@db/app?" + parameter} {
			if _, err := Open(dsn, Options{}); !errors.Is(err, rowlock.ErrInvalid) || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "another driver's") {
				t.Errorf("%s: %v, want ErrInvalid with %q", dsn, err, name)
			}
		}
	}
	onServers(t, func(t *testing.T, l *lab) {
		l.store()
		must(t, l.bare("innodb_lock_wait_timeout=7", "SQL_MODE=''").Check(patient(t))) // variables
		for _, parameter := range []string{"innodb_lok_wait_timeout=7", "serverVersion=8.0", "max_connections=7"} {
			config, err := mysql.ParseDSN(l.dsn(parameter))
			must(t, err)
			config.Logger = &mysql.NopLogger{}
			connector, err := mysql.NewConnector(config)
			must(t, err)
			pool := sql.OpenDB(connector)
			defer pool.Close()
			s, err := New(pool, l.options())
			must(t, err)
			defer s.Close()
			err = s.Check(patient(t))
			if err == nil || !driver.IsLasting(err) || !strings.Contains(err.Error(), "a parameter of the DSN") || strings.Contains(err.Error(), "no MySQL 8.0") {
				t.Errorf("%s: %v, want the parameter", parameter, err)
			}
		}
	}, VersionColumn)
}
