package main

import (
	"database/sql"
	"fmt"
	"regexp"
	"strings"
	"testing"

	mysqldriver "github.com/go-sql-driver/mysql"

	"github.com/rowlock/rowlock/internal/docpage"
	"github.com/rowlock/rowlock/internal/testserver"
)

const doctorPage = "../../docs/doctor.md"

// ofServer are the parts of a report that depend on the server and on the machine.
var ofServer = []*regexp.Regexp{
	regexp.MustCompile(`\d+ ok, \d+ info`),
	regexp.MustCompile(`(?m)^\S.* at \S+:\d+ \(server_id \d+\)`),
	regexp.MustCompile(`statement \S+, lock \S+, renewal \S+; a TTL of \S+`),
}

func unmeasured(text string) string {
	for _, m := range ofServer {
		text = m.ReplaceAllString(text, "MEASURED")
	}
	return text
}

// TestGuideDoctor: the session of the page, on a server that is set up as badly: the verdict, the commands, and no finding
// any more. The server's own administrator runs the commands.
func TestGuideDoctor(t *testing.T) {
	t.Parallel()
	server := testserver.Start(t, testserver.MySQL, "--innodb-flush-log-at-trx-commit=2", "--sync-binlog=0")
	config, err := mysqldriver.ParseDSN(server.DSN())
	must(t, err)
	address := fmt.Sprintf("mysql://%s:%s@%s/%s", config.User, config.Passwd, config.Addr, config.DBName)
	admin, err := sql.Open("mysql", server.DSN())
	must(t, err)
	defer admin.Close()
	h := newHost(t, address)
	must(t, h.store.Migrate(t.Context()))
	h.env = append(h.env, "ROWLOCK_DB="+address)
	prompt := regexp.MustCompile(`(?m)^(\$|mysql>) `)
	text := docpage.One(t, doctorPage, "session", "doctor")
	at := prompt.FindAllStringSubmatchIndex(text, -1)
	for i, m := range at {
		end := len(text)
		if i+1 < len(at) {
			end = at[i+1][0]
		}
		line, want, _ := strings.Cut(text[m[1]:end], "\n")
		if text[m[2]:m[3]] == "mysql>" {
			_, err := admin.Exec(line)
			must(t, err)
			continue
		}
		// a machine that is busy has slow renewals, which are another test's
		if got := h.run(line + " --ttl 10m"); unmeasured(got) != unmeasured(want) {
			t.Errorf("$ %s\n%s\nthe page has\n%s", line, got, want)
		}
	}
}
