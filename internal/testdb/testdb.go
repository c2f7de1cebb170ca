// Package testdb makes databases for tests.
package testdb

import (
	"crypto/rand"
	"database/sql"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/rowlock/rowlock/internal/testserver"
)

// MySQL makes an empty database of the test's own on the server of that kind, and returns how to connect to it. It is
// dropped behind the test.
func MySQL(t testing.TB, kind string) *mysql.Config {
	t.Helper()
	config, err := mysql.ParseDSN(testserver.DSN(t, kind))
	if err != nil {
		t.Fatal(err)
	}
	admin, err := sql.Open("mysql", config.FormatDSN())
	if err != nil {
		t.Fatal(err)
	}
	config.DBName = "t_" + strings.ToLower(rand.Text()[:12])
	if _, err = admin.Exec("CREATE DATABASE " + config.DBName); err != nil {
		_ = admin.Close()
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_, _ = admin.Exec("DROP DATABASE " + config.DBName)
		_ = admin.Close()
	})
	return config
}
