package main

import (
	"database/sql"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	mysqldriver "github.com/go-sql-driver/mysql"

	"github.com/rowlock/rowlock/internal/testserver"
)

// TestLsOfManyKeys: ls lists 100 000 keys, all of them once, and the log says how long that took.
func TestLsOfManyKeys(t *testing.T) {
	const keys = 100_000
	address := database(t, testserver.MySQL)
	must(t, open(t, address).Migrate(t.Context()))
	config, err := mysqldriver.ParseDSN(testserver.DSN(t, testserver.MySQL))
	must(t, err)
	config.DBName = address[strings.LastIndexByte(address, '/')+1:]
	db, err := sql.Open("mysql", config.FormatDSN())
	must(t, err)
	defer db.Close()
	for begin := 0; begin < keys; begin += 10_000 {
		var rows []string
		for i := begin; i < begin+10_000; i++ {
			rows = append(rows, fmt.Sprintf("('key %06d', UNHEX(LPAD(HEX(%d),32,'0')), 'web1:812', %d, UTC_TIMESTAMP(6), UTC_TIMESTAMP(6) + INTERVAL 1 HOUR)", i, i+1, int64(1)<<60+int64(i)))
		}
		_, err := db.Exec("INSERT INTO rowlock_version (name, hold, owner, token, acquired_at, expires_at) VALUES " + strings.Join(rows, ","))
		must(t, err)
	}
	start := time.Now()
	cmd := exec.Command(filepath.Join(bin, "rowlock"), "ls", "--limit", "0")
	cmd.Env = append(cmd.Environ(), "ROWLOCK_DB="+address)
	out, err := cmd.Output()
	must(t, err)
	t.Logf("%d keys in %v; its own processor time %v", keys, time.Since(start), cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime())
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(lines) != keys+1 || !strings.HasPrefix(lines[1], "key 000000 ") || !strings.HasPrefix(lines[keys], "key 099999 ") {
		t.Errorf("%d lines, from %.20q to %.20q", len(lines), lines[1], lines[len(lines)-1])
	}
}
