// Package examples runs the short form of every example on real servers.
package examples

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/rowlock/rowlock/internal/testserver"
)

// build builds an example.
func build(t *testing.T, name string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), name+".exe")
	if out, err := exec.Command("go", "build", "-o", program, "./"+name).CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", name, err, out)
	}
	return program
}

// run runs a program and returns what it wrote.
func run(t *testing.T, env []string, program string, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testserver.Patience(t))
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.Env = env
	cmd.WaitDelay = time.Second
	err := cmd.Run()
	return out.String(), err
}

// pass runs a program that must end well.
func pass(t *testing.T, program string, args ...string) {
	t.Helper()
	out, err := run(t, os.Environ(), program, args...)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Log("\n" + out)
}

// TestEveryExample: each example has a test here that runs it.
func TestEveryExample(t *testing.T) {
	tests, err := os.ReadFile("examples_test.go")
	if err != nil {
		t.Fatal(err)
	}
	programs, err := filepath.Glob("*/main.go")
	if err != nil || len(programs) == 0 {
		t.Fatal(programs, err)
	}
	for _, p := range programs {
		if name := filepath.Dir(p); !strings.Contains(string(tests), `build(t, "`+name+`")`) {
			t.Errorf("no test runs the example %s", name)
		}
	}
}

// TestHello: it needs no server, and prints what README.md of this folder shows.
func TestHello(t *testing.T) {
	t.Parallel()
	out, err := run(t, []string{}, build(t, "hello"))
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(out, "\n"); n != 10 || !strings.Contains(string(readme), "```\n"+out+"```\n") {
		t.Errorf("%d lines, want 10, and the same in README.md:\n%s", n, out)
	}
}

func TestFlashSale(t *testing.T) {
	testserver.DSN(t, testserver.MySQL)
	testserver.DSN(t, testserver.MariaDB)
	testserver.DSN(t, testserver.Mongo)
	result := filepath.Join(t.TempDir(), "result.json")
	pass(t, build(t, "flashsale"), "-short", "-mariadb", "-json", result)

	var report struct {
		Items int
		Sales []struct {
			Server, Strategy       string
			Sold, Oversold, Errors int
		}
		Takeovers []struct {
			Server, Strategy string
			Trials           []float64 `json:"trials_ms"`
		}
		Freezes []struct {
			Plain, Guarded struct{ Overwrote, Refused bool }
		}
	}
	data, err := os.ReadFile(result)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &report); err != nil {
		t.Fatal(err)
	}
	locked := map[string]bool{}
	for _, s := range report.Sales {
		if s.Errors > 0 {
			t.Errorf("%s %s: %d errors", s.Server, s.Strategy, s.Errors)
		}
		if s.Strategy == "none" {
			continue
		}
		locked[s.Server+" "+s.Strategy] = true
		if s.Sold != report.Items || s.Oversold != 0 {
			t.Errorf("%s %s: sold %d of %d items, %d too many", s.Server, s.Strategy, s.Sold, report.Items, s.Oversold)
		}
	}
	const want = 2*3 + 1 // MySQL and MariaDB have three strategies, MongoDB one
	if len(locked) != want {
		t.Errorf("%d sales with a lock, want %d: %v", len(locked), want, locked)
	}
	if len(report.Freezes) != want && runtime.GOOS != "windows" {
		t.Errorf("%d frozen holders, want %d", len(report.Freezes), want)
	}
	for _, f := range report.Freezes {
		if !f.Plain.Overwrote || f.Guarded.Overwrote || !f.Guarded.Refused {
			t.Errorf("a frozen holder: %+v, want that the plain write comes through and the guarded one is refused", f)
		}
	}
	for _, o := range report.Takeovers {
		if len(o.Trials) == 0 {
			t.Errorf("%s %s: no takeover was measured", o.Server, o.Strategy)
		}
		delete(locked, o.Server+" "+o.Strategy)
	}
	if len(locked) > 0 {
		t.Errorf("no takeovers of %v", locked)
	}
}

func TestCron(t *testing.T) {
	for _, kind := range testserver.Some(t, testserver.MySQL, testserver.Mongo) {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			testserver.DSN(t, kind)
			pass(t, build(t, "cron"), "-short", "-backend", kind)
		})
	}
}

// TestLeader: one leads at a time, and the write of a leader that was frozen is refused.
func TestLeader(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("freezes a process by SIGSTOP")
	}
	program := build(t, "leader")
	for _, kind := range testserver.Some(t, testserver.MySQL, testserver.MariaDB) {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			testserver.DSN(t, kind)
			pass(t, program, "-short", "-backend", kind)
		})
	}
}

// TestFencedFiles: the late write is refused, and without tokens it is not.
func TestFencedFiles(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("freezes a process by SIGSTOP")
	}
	testserver.DSN(t, testserver.MySQL)
	program := build(t, "fencedfiles")
	for _, fence := range []string{"-fence=true", "-fence=false"} {
		t.Run(fence, func(t *testing.T) {
			t.Parallel()
			pass(t, program, "-short", fence)
		})
	}
}

func TestNightly(t *testing.T) {
	program := build(t, "nightly")
	strategies := map[string]string{testserver.MySQL: "version,unique,for-update", testserver.MariaDB: "version"}
	for _, kind := range testserver.Some(t, testserver.MySQL, testserver.MariaDB) {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			testserver.DSN(t, kind)
			pass(t, program, "-short", "-backend", kind, "-strategies", strategies[kind])
		})
	}
}

// TestNightlyWithout: without the guard the books are wrong, or the program says
// that it was lucky.
func TestNightlyWithout(t *testing.T) {
	t.Parallel()
	testserver.DSN(t, testserver.MySQL)
	out, err := run(t, os.Environ(), build(t, "nightly"), "-short", "-without")
	var exit *exec.ExitError
	switch {
	case err == nil && strings.Contains(out, "luck"):
	case errors.As(err, &exit) && exit.ExitCode() == 1 && strings.Contains(out, "more than once"):
	default:
		t.Fatalf("%v\n%s", err, out)
	}
	t.Log("\n" + out)
}

func TestOutbox(t *testing.T) {
	program := build(t, "outbox")
	strategies := map[string]string{testserver.MySQL: "version", testserver.MariaDB: "for-update"}
	for _, kind := range testserver.Some(t, testserver.MySQL, testserver.MariaDB) {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			testserver.DSN(t, kind)
			pass(t, program, "-short", "-backend", kind, "-strategy", strategies[kind])
		})
	}
}

func TestMongoOrders(t *testing.T) {
	t.Parallel()
	testserver.DSN(t, testserver.Mongo)
	pass(t, build(t, "mongo-orders"), "-short")
}

// TestTransfer: with AcquireAll every transfer is made and no money is lost.
func TestTransfer(t *testing.T) {
	program := build(t, "transfer")
	strategies := map[string]string{testserver.MySQL: "version", testserver.MariaDB: "for-update"}
	for _, kind := range testserver.Some(t, testserver.MySQL, testserver.MariaDB) {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			testserver.DSN(t, kind)
			pass(t, program, "-short", "-backend", kind, "-strategy", strategies[kind])
		})
	}
}

// TestRW: nobody reads a torn list under a lock, and both sides get their turns.
func TestRW(t *testing.T) {
	program := build(t, "rw")
	strategies := map[string][]string{testserver.MySQL: {"version", "for-update"}, testserver.MariaDB: {"unique", "for-update"}}
	for _, kind := range testserver.Some(t, testserver.MySQL, testserver.MariaDB) {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			testserver.DSN(t, kind)
			for _, strategy := range strategies[kind] {
				t.Run(strategy, func(t *testing.T) { pass(t, program, "-short", "-backend", kind, "-strategy", strategy) })
			}
		})
	}
}

// TestSlots: the partner refuses no call, and a number returns from a process that was killed.
func TestSlots(t *testing.T) {
	program := build(t, "slots")
	for _, kind := range testserver.Some(t, testserver.MySQL, testserver.MariaDB, testserver.Mongo) {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			testserver.DSN(t, kind)
			pass(t, program, "-short", "-backend", kind)
		})
	}
}

// TestNoServers: without servers the examples say what to do.
func TestNoServers(t *testing.T) {
	testserver.Long(t)
	var env []string
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "ROWLOCK_TEST_") {
			env = append(env, v)
		}
	}
	for name, variable := range map[string]string{
		"flashsale": "ROWLOCK_TEST_MONGO_URI", "cron": "ROWLOCK_TEST_MYSQL_DSN", "leader": "ROWLOCK_TEST_MYSQL_DSN", "fencedfiles": "ROWLOCK_TEST_MYSQL_DSN",
		"nightly": "ROWLOCK_TEST_MYSQL_DSN", "outbox": "ROWLOCK_TEST_MYSQL_DSN", "mongo-orders": "ROWLOCK_TEST_MONGO_URI",
		"transfer": "ROWLOCK_TEST_MYSQL_DSN", "rw": "ROWLOCK_TEST_MYSQL_DSN", "slots": "ROWLOCK_TEST_MYSQL_DSN",
	} {
		out, err := run(t, env, build(t, name))
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != 2 {
			t.Errorf("%s: %v, want exit code 2", name, err)
		}
		if !strings.Contains(out, variable) || !strings.Contains(out, "make demo") {
			t.Errorf("%s does not name %s and make demo: %s", name, variable, out)
		}
	}
}
