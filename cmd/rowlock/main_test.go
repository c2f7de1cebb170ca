package main

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/testdb"
	"github.com/rowlock/rowlock/internal/testserver"
	mongolock "github.com/rowlock/rowlock/mongo"
	mysqllock "github.com/rowlock/rowlock/mysql"
)

var kinds = []string{testserver.MySQL, testserver.MariaDB, testserver.Mongo}

// bin is the folder with the program that is tested.
var bin string

// race is the setting GORACE of the programs under test.
const race = "atexit_sleep_ms=0"

func TestMain(m *testing.M) {
	code, err := testMain(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func testMain(m *testing.M) (code int, err error) {
	if bin, err = os.MkdirTemp("", "rowlock"); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(bin)) }()
	args := append([]string{"build"}, buildFlags...)
	if out, err := exec.Command("go", append(args, "-o", filepath.Join(bin, "rowlock.exe"), ".")...).CombinedOutput(); err != nil {
		return 0, fmt.Errorf("build: %w\n%s", err, out)
	}
	if err := os.Symlink(filepath.Join(bin, "rowlock.exe"), filepath.Join(bin, "rowlock")); err != nil {
		return 0, err
	}
	// With the race detector a program would sleep for a second before it ends, and a run is two programs.
	if err := os.Setenv("GORACE", race); err != nil {
		return 0, err
	}
	// Settings of the machine must not count.
	for _, variable := range os.Environ() {
		if name, _, _ := strings.Cut(variable, "="); strings.HasPrefix(name, "ROWLOCK_") && !strings.HasPrefix(name, "ROWLOCK_TEST_") {
			_ = os.Unsetenv(name)
		}
	}
	// Most tests wait most of the time; -parallel says otherwise.
	if err := flag.Set("test.parallel", "6"); err != nil {
		return 0, err
	}
	return m.Run(), nil
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// lockStore is what both stores can.
type lockStore interface {
	driver.Store
	driver.Lister
	driver.Forcer
	Migrate(context.Context) error
	Close() error
}

// database makes one of the test's own, without tables, and returns its URL.
func database(t testing.TB, kind string) (address string) {
	t.Helper()
	if kind == testserver.Mongo {
		name, dsn := "cli_"+strings.ToLower(rand.Text()[:12]), testserver.DSN(t, kind)
		before, query, _ := strings.Cut(dsn, "?")
		client, err := mongo.Connect(options.Client().ApplyURI(dsn))
		must(t, err)
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			_ = client.Database(name).Drop(ctx)
			_ = client.Disconnect(ctx)
		})
		return strings.TrimSuffix(before, "/") + "/" + name + "?" + query
	}
	config := testdb.MySQL(t, kind)
	return fmt.Sprintf("mysql://%s:%s@%s/%s", config.User, config.Passwd, config.Addr, config.DBName)
}

// open opens the locks of a database.
func open(t testing.TB, address string) lockStore {
	t.Helper()
	if !strings.HasPrefix(address, "mongodb") {
		s, err := mysqllock.Open(address, mysqllock.Options{})
		must(t, err)
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
	client, err := mongo.Connect(options.Client().ApplyURI(address))
	must(t, err)
	name, _, _ := strings.Cut(address[strings.LastIndexByte(address, '/')+1:], "?")
	s, err := mongolock.New(client.Database(name).Collection("locks"), mongolock.Options{})
	must(t, err)
	t.Cleanup(func() {
		_ = s.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_ = client.Disconnect(ctx)
	})
	return s
}

// eventually waits until a condition holds.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(testserver.Patience(t)); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("still not: %s", what)
		}
	}
}
