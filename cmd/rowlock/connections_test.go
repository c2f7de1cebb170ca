package main

import (
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/internal/testserver"
	mysqllock "github.com/rowlock/rowlock/mysql"
)

var strategies = []string{"version", "unique", "for-update"}

// fewest are the connections of rowlock run with a strategy: while it waits, and while it holds. They are those of docs/guides/jobs.md.
func fewest(strategy string) (waits, holds int) {
	if strategy == "for-update" {
		return 2, 2
	}
	return 1, 2
}

// account is a database with tables and a user of its own, whose connections can be counted.
type account struct {
	t       testing.TB
	root    *sql.DB
	user    string
	address string // as that user
	store   lockStore
}

// newAccount makes one on a server; with is the end of CREATE USER.
func newAccount(t testing.TB, dsn, strategy, with string) *account {
	t.Helper()
	config, err := mysql.ParseDSN(dsn)
	must(t, err)
	a := &account{t: t, user: "h" + strings.ToLower(rand.Text()[:12])}
	a.root, err = sql.Open("mysql", dsn)
	must(t, err)
	t.Cleanup(func() { _ = a.root.Close() })
	for _, text := range []string{"CREATE DATABASE " + a.user, "CREATE USER " + a.user + "@'%' IDENTIFIED BY 'pw' " + with, "GRANT ALL ON " + a.user + ".* TO " + a.user + "@'%'"} {
		_, err := a.root.Exec(text)
		must(t, err)
	}
	t.Cleanup(func() {
		for _, text := range []string{"DROP USER " + a.user + "@'%'", "DROP DATABASE " + a.user} {
			_, _ = a.root.Exec(text)
		}
	})
	a.address = fmt.Sprintf("mysql://%s:pw@%s/%s", a.user, config.Addr, a.user)
	s, err := mysqllock.ParseStrategy(strategy)
	must(t, err)
	own := config.Clone()
	own.DBName = a.user
	store, err := mysqllock.Open(own.FormatDSN(), mysqllock.Options{Strategy: s})
	must(t, err)
	t.Cleanup(func() { _ = store.Close() })
	must(t, store.Migrate(t.Context()))
	a.store = store
	return a
}

// connections asks the server for those of the user.
func (a *account) connections() (n int) {
	a.t.Helper()
	must(a.t, a.root.QueryRow("SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE USER=?", a.user).Scan(&n))
	return n
}

// settles waits until there are no more connections than most: one that was closed is shown for a moment longer.
func settles(t testing.TB, who string, most int, count func() int) {
	t.Helper()
	n := count()
	for end := time.Now().Add(testserver.Patience(t)); n > most && time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		n = count()
	}
	if n > most || n == 0 {
		t.Errorf("%s: %d connections, want at most %d", who, n, most)
	}
}

// rowlockRun is rowlock run with a database.
func rowlockRun(address string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(bin, "rowlock"), append([]string{"run"}, args...)...)
	cmd.Env = append(os.Environ(), "ROWLOCK_DB="+address, "ROWLOCK_TIMEOUT=30s")
	return cmd
}

// startRun starts a run whose command writes a word when it starts, and ends when the returned function is called.
func startRun(t testing.TB, address string, args ...string) (end func()) {
	t.Helper()
	cmd := rowlockRun(address, append(args, "sh", "-c", "echo runs; read line")...)
	stdin, err := cmd.StdinPipe()
	must(t, err)
	stdout, err := cmd.StdoutPipe()
	must(t, err)
	var errs strings.Builder
	cmd.Stderr = &errs
	must(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	if _, err := stdout.Read(make([]byte, 5)); err != nil {
		t.Fatalf("the command did not start: %v\n%s", err, errs.String())
	}
	return func() {
		t.Helper()
		must(t, stdin.Close())
		// read fails at the end of the input: exit code 1 is the command's own.
		if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 1 {
			t.Errorf("the run ended with %v\n%s", err, errs.String())
		}
	}
}

// TestRunConnections: a run that waits has one connection and one that holds two, that for the renewals and the release before its
// command starts (strategy for-update: two and two), also with --run.
func TestRunConnections(t *testing.T) {
	t.Parallel()
	for _, kind := range testserver.Some(t, testserver.MySQL, testserver.MariaDB) {
		for _, strategy := range strategies {
			t.Run(kind+"/"+strategy, func(t *testing.T) {
				t.Parallel()
				holder := newAccount(t, testserver.DSN(t, kind), strategy, "")
				waits, holds := fewest(strategy)
				options := []string{"--strategy", strategy, "--run"}
				end := startRun(t, holder.address, append(options, "first", "k", "--")...)
				if n := holder.connections(); n < holds {
					t.Errorf("%d connections when the command starts, want %d", n, holds)
				}
				settles(t, "the holder", holds, holder.connections)
				cmd := rowlockRun(holder.address, append(options, "second", "k", "--", "true")...)
				must(t, cmd.Start())
				eventually(t, "the second waits", func() bool { return someWait(t, holder.store, "k") })
				settles(t, "both", holds+waits, holder.connections)
				end()
				if err := cmd.Wait(); err != nil {
					t.Errorf("the second: %v", err)
				}
				if info := infoOf(t, holder.store, "k"); info.Held {
					t.Errorf("the key is still held: %+v", info)
				}
			})
		}
	}
	t.Run("mongo", func(t *testing.T) {
		t.Parallel()
		const most, monitors = 3, 2
		dsn := testserver.Start(t, testserver.Mongo).DSN()
		before, query, _ := strings.Cut(dsn, "?")
		address := strings.TrimSuffix(before, "/") + "/app?" + query
		store := open(t, address)
		must(t, store.Migrate(t.Context()))
		client, err := mongo.Connect(options.Client().ApplyURI(dsn))
		must(t, err)
		t.Cleanup(func() { _ = client.Disconnect(t.Context()) })
		count := func() int { return mongoConnections(t, client) }
		end := startRun(t, address, "--run", "first", "k", "--")
		settles(t, "the holder", most+monitors, count)
		cmd := rowlockRun(address, "--run", "second", "k", "--", "true")
		must(t, cmd.Start())
		eventually(t, "the second waits", func() bool { return someWait(t, store, "k") })
		settles(t, "both", 2*(most+monitors), count)
		end()
		must(t, cmd.Wait())
	})
}

// mongoConnections counts those of rowlock run, with those by which the driver watches the server.
func mongoConnections(t testing.TB, client *mongo.Client) int {
	t.Helper()
	cursor, err := client.Database("admin").Aggregate(t.Context(), mongo.Pipeline{
		{{Key: "$currentOp", Value: bson.D{{Key: "allUsers", Value: true}, {Key: "idleConnections", Value: true}}}},
		{{Key: "$match", Value: bson.D{{Key: "appName", Value: "rowlock"}}}},
		{{Key: "$group", Value: bson.D{{Key: "_id", Value: "$connectionId"}}}},
	})
	must(t, err)
	var all []bson.Raw
	must(t, cursor.All(t.Context(), &all))
	return len(all)
}

// TestRunOnOneConnection: where the server gives a run one connection only, the command runs and the key is free after it.
func TestRunOnOneConnection(t *testing.T) {
	t.Parallel()
	for _, kind := range testserver.Some(t, testserver.MySQL, testserver.MariaDB) {
		for _, strategy := range strategies {
			t.Run(kind+"/"+strategy, func(t *testing.T) {
				t.Parallel()
				waits, _ := fewest(strategy)
				a := newAccount(t, testserver.DSN(t, kind), strategy, fmt.Sprintf("WITH MAX_USER_CONNECTIONS %d", waits))
				out, err := rowlockRun(a.address, "--strategy", strategy, "k", "--", "echo", "ran").CombinedOutput()
				if err != nil || string(out) != "ran\n" {
					t.Errorf("%v\n%s", err, out)
				}
				if info := infoOf(t, a.store, "k"); info.Held {
					t.Errorf("the key is still taken for %v", info.Left)
				}
			})
		}
	}
}

// TestSixtyHosts: 60 hosts with the crontab of the guide on a server with 151 connections make each run once, in silence, and other
// programs always get their connections.
func TestSixtyHosts(t *testing.T) {
	testserver.Long(t)
	t.Parallel()
	const hosts, most = 60, 151
	server := testserver.Start(t, testserver.MySQL, fmt.Sprintf("--max-connections=%d", most))
	for _, strategy := range strategies {
		a := newAccount(t, server.DSN(), strategy, "")
		h := newHost(t, a.address)
		runs, end := filepath.Join(t.TempDir(), "runs"), filepath.Join(t.TempDir(), "end")
		h.program("report", fmt.Sprintf("echo run >>%s; while ! [ -e %s ]; do sleep 0.1; done", runs, end))
		line := h.crontab(a.address, "minute")
		if !strings.Contains(line, "run -x -w 50s --ttl 20s --period 1m report") {
			t.Fatalf("another line: %s", line)
		}
		line = strings.Replace(line, "run ", "run --strategy "+strategy+" ", 1)
		line = strings.Replace(line, "-w 50s", "-w 100s", 1) // a busy machine needs more time for 60 programs
		waits, holds := fewest(strategy)
		atOnce := holds + (hosts-1)*waits
		// A connection is counted until the server has ended it, so each of the others may have two for a moment.
		stop := othersConnect(t, strategy, server.DSN(), min(20, (most-atOnce)/3))
		results := make(chan error, hosts)
		for range hosts {
			cmd := h.sh(line)
			go func() {
				out, err := cmd.CombinedOutput()
				if err != nil || len(out) > 0 {
					err = fmt.Errorf("a host: %v, and it said:\n%s", err, out)
				}
				results <- err
			}()
		}
		eventually(t, "all hosts are there", func() bool { return a.connections() >= atOnce })
		settles(t, "all hosts", atOnce, a.connections)
		must(t, os.WriteFile(end, nil, 0o600))
		for range hosts {
			if err := <-results; err != nil {
				t.Errorf("%s: %v", strategy, err)
			}
		}
		stop()
		text, err := os.ReadFile(runs)
		must(t, err)
		if n := strings.Count(string(text), "\n"); n != 1 {
			t.Errorf("%s: %d runs were made, want 1", strategy, n)
		}
	}
}

// othersConnect are other programs, which open so many connections and close them, again and again until stop.
func othersConnect(t testing.TB, strategy, dsn string, n int) (stop func()) {
	t.Helper()
	done := make(chan struct{})
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			for {
				db, err := sql.Open("mysql", dsn)
				if err == nil {
					err = db.Ping()
				}
				var refused *mysql.MySQLError
				if errors.As(err, &refused) {
					t.Errorf("%s: another program: %v", strategy, err)
				}
				select {
				case <-done:
					_ = db.Close()
					return
				case <-time.After(200 * time.Millisecond):
					_ = db.Close()
				}
			}
		})
	}
	return func() { close(done); all.Wait() }
}

func infoOf(t testing.TB, store lockStore, key string) rowlock.Info {
	t.Helper()
	infos, err := store.Inspect(t.Context(), []string{key})
	must(t, err)
	return infos[0]
}

// someWait reports whether a program is known to wait for a key.
func someWait(t testing.TB, store lockStore, key string) bool {
	t.Helper()
	infos, err := store.List(t.Context(), key, "", 1)
	must(t, err)
	return len(infos) > 0 && infos[0].Waiting > 0
}
