package main

import (
	"database/sql"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/rowlock/rowlock/internal/testserver"
)

// TestTLS: --tls-ca, --tls-cert and --tls-key, from each of their sources, are what a server asks for that wants a certificate.
func TestTLS(t *testing.T) {
	for _, kind := range testserver.Some(t, testserver.MySQL, testserver.MariaDB) {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			cert, key, other := filepath.Join(folder, "cert"), filepath.Join(folder, "key"), filepath.Join(folder, "other")
			certificate(t, cert, key)
			certificate(t, other, filepath.Join(folder, "otherkey"))
			server := testserver.Start(t, kind, "--ssl-ca="+cert, "--ssl-cert="+cert, "--ssl-key="+key)
			db, err := sql.Open("mysql", server.DSN())
			must(t, err)
			defer db.Close()
			config, err := mysql.ParseDSN(server.DSN())
			must(t, err)
			for _, statement := range []string{"CREATE USER strict@'%' IDENTIFIED BY 'Un-encoded#1' REQUIRE X509", "GRANT ALL ON " + config.DBName + ".* TO strict@'%'"} {
				_, err := db.ExecContext(t.Context(), statement)
				must(t, err)
			}
			password := filepath.Join(folder, "password")
			must(t, os.WriteFile(password, []byte("Un-encoded#1\n"), 0o600))
			url := "mysql://strict@" + config.Addr + "/" + config.DBName
			settings := filepath.Join(folder, "settings")
			must(t, os.WriteFile(settings, []byte(strings.Join([]string{"db = " + url, "password-file = " + password, "tls-ca = " + cert, "tls-cert = " + cert, "tls-key = " + key}, "\n")), 0o600))
			mine := "--tls-cert " + cert + " --tls-key " + key
			for _, c := range []struct {
				line, variables string
				code            int
				says            string
			}{
				{"--db " + url + " --tls-ca " + cert + " " + mine + " migrate --up", "", 0, "the tables are there"},
				{"--db " + url + " --tls-ca " + cert + " " + mine + " run k -- echo ran", "", 0, "ran\n"},
				{"--db strict@tcp(" + config.Addr + ")/" + config.DBName + "?timeout=5s --tls-ca " + cert + " " + mine + " run k -- echo ran", "", 0, "ran\n"},
				{"run k -- echo ran", "ROWLOCK_DB=" + url + " ROWLOCK_TLS_CA=" + cert + " ROWLOCK_TLS_CERT=" + cert + " ROWLOCK_TLS_KEY=" + key, 0, "ran\n"},
				{"--config " + settings + " run k -- echo ran", "", 0, "ran\n"},
				{"--db " + url + "?tls=true --tls-ca " + cert + " " + mine + " ls", "", 0, "KEY"},
				{"--db " + url + " --tls-ca " + cert + " ls", "", 78, "look at user and password"},
				{"--db " + url + " --tls-ca " + other + " " + mine + " ls", "", 69, "x509: "},
				{"--db " + url + " " + mine + " ls", "", 69, "x509: "},
				{"--db " + url + " --tls-ca " + other + " " + mine + " run -w 30m k -- echo ran", "", 69, "x509: "},
				{"--db " + url + " --tls-ca " + cert + " --tls-cert " + cert + " ls", "", 64, "go together"},
				{"--db " + url + " --tls-ca " + password + " ls", "", 78, "has no certificate in PEM"},
				{"--db " + url + " --tls-ca " + folder + "/none ls", "", 78, "no such file"},
				{"--db " + url + "?tls=skip-verify --tls-ca " + cert + " ls", "", 64, "the address has tls=skip-verify"},
				{"--db mongodb://u@h/db --tls-ca " + cert + " ls", "", 64, "tlsCAFile=FILE"},
			} {
				if !strings.Contains(c.line, "settings") {
					c.line = "--password-file " + password + " " + c.line
				}
				cmd := exec.CommandContext(t.Context(), filepath.Join(bin, "rowlock"), strings.Fields(c.line)...)
				cmd.Env = append(append(os.Environ(), "ROWLOCK_TIMEOUT=30s"), strings.Fields(c.variables)...)
				out, err := cmd.CombinedOutput()
				code := 0
				var exit *exec.ExitError
				if errors.As(err, &exit) {
					code = exit.ExitCode()
				} else {
					must(t, err)
				}
				if code != c.code || !strings.Contains(string(out), c.says) || strings.Contains(string(out), "Un-encoded") {
					t.Errorf("%s %s\nexit code %d, want %d and %q:\n%s", c.variables, c.line, code, c.code, c.says, out)
				}
			}
		})
	}
}
