package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/testserver"
)

// TestScripts runs the sessions of testdata/script on each server, each with a database of its own in
// ROWLOCK_DB, and one without tables in EMPTY_DB.
func TestScripts(t *testing.T) {
	for _, kind := range testserver.Some(t, kinds...) {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			testscript.Run(t, testscript.Params{
				Dir: filepath.Join("testdata", "script"),
				Setup: func(env *testscript.Env) error {
					return prepare(t, kind, env)
				},
				Condition: func(name string) (bool, error) {
					switch name {
					case "mysql", "mariadb", "mongo":
						return name == kind, nil
					case "sql":
						return kind != "mongo", nil
					}
					return false, fmt.Errorf("unknown condition %q", name)
				},
				Cmds: map[string]func(*testscript.TestScript, bool, []string){
					"exits":   exits,
					"file":    waitForFile,
					"held":    waitForState(func(i driver.Info) bool { return i.Held }),
					"free":    waitForState(func(i driver.Info) bool { return !i.Held }),
					"waiting": waitForWaiting,
					"force":   force,
					"signal":  send,
					"sleep":   sleep,

					"tokenof": tokenOf,
					"address": freeAddress,
					"http":    get,
				},
				RequireExplicitExec: true,
				Deadline:            time.Now().Add(testserver.Patience(t)), // a session that hangs says where
			})
		})
	}
}

type storeKey struct{}

// endKey is until when a session waits.
type endKey struct{}

func prepare(t *testing.T, kind string, env *testscript.Env) error {
	address := database(t, kind)
	store := open(t, address)
	must(t, store.Migrate(t.Context()))
	env.Values[storeKey{}] = store
	env.Values[endKey{}] = time.Now().Add(testserver.Patience(t))
	env.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	env.Setenv("ROWLOCK_DB", address)
	env.Setenv("EMPTY_DB", database(t, kind))
	env.Setenv("HOME", env.WorkDir)
	env.Setenv("GORACE", race)
	env.Setenv("ROWLOCK_TIMEOUT", "30s") // a busy machine answers late
	// Of the servers of the tests those of SQL have a password.
	without := strings.Replace(address, ":secret@", "@", 1)
	wrong := strings.Replace(address, ":secret@", ":Wr0ng%20p%40ss@", 1)
	if kind == testserver.Mongo {
		wrong = strings.Replace(address, "://", "://user:Wr0ng%20p%40ss@", 1)
	} else if without == address {
		return fmt.Errorf("the password of the server is another one than these tests know")
	}
	env.Setenv("DB_HOST_URL", without)
	env.Setenv("WRONG_PASSWORD_URL", wrong)
	env.Setenv("NO_DATABASE_URL", address[:strings.LastIndexByte(address, '/')]+"/no_such_database")
	return os.WriteFile(filepath.Join(env.WorkDir, "settings"), []byte("# settings\n\ndb = "+without+"\npassword = secret\n"), 0o600)
}

// exits runs a command and looks at its exit code: exits 75 rowlock run …
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND ARGUMENTS")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	var exit *exec.ExitError
	switch err := ts.Exec(args[1], args[2:]...); {
	case errors.As(err, &exit):
		got = exit.ExitCode()
	case err != nil:
		ts.Fatalf("%v", err)
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d\n%s", got, want, ts.ReadFile("stderr"))
	}
}

// waitForFile waits until a file has the text: file NAME [TEXT]
func waitForFile(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: file NAME [TEXT]")
	}
	text := strings.Join(args[1:], " ")
	poll(ts, "the file "+args[0], func() bool {
		found, err := os.ReadFile(ts.MkAbs(args[0]))
		return err == nil && strings.Contains(string(found), text)
	})
}

// waitForState waits until a key is in a state: held KEY
func waitForState(is func(driver.Info) bool) func(*testscript.TestScript, bool, []string) {
	return func(ts *testscript.TestScript, neg bool, args []string) {
		if neg || len(args) != 1 {
			ts.Fatalf("one key is needed")
		}
		store := ts.Value(storeKey{}).(lockStore)
		poll(ts, "the key "+args[0], func() bool {
			infos, err := store.Inspect(context.Background(), args[:1])
			ts.Check(err)
			return is(infos[0])
		})
	}
}

// waitForWaiting waits until so many programs wait for a key: waiting KEY NUMBER
func waitForWaiting(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: waiting KEY NUMBER")
	}
	waitForState(func(i driver.Info) bool { return strconv.Itoa(i.Waiting) == args[1] })(ts, false, args[:1])
}

// tokenOf puts the token that a file of show -o json has into a variable: tokenof FILE VARIABLE
func tokenOf(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: tokenof FILE VARIABLE")
	}
	var key struct{ Token int64 }
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[0])), &key))
	ts.Setenv(args[1], strconv.FormatInt(key.Token, 10))
}

// freeAddress puts an address on which nobody listens into a variable: address VARIABLE
func freeAddress(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: address VARIABLE")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	ts.Setenv(args[0], l.Addr().String())
	ts.Check(l.Close())
}

// get asks by HTTP: http ADDRESS PATH STATUS [TEXT]
func get(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: http ADDRESS PATH STATUS [TEXT]")
	}
	client := http.Client{Timeout: 10 * time.Second}
	response, err := client.Get("http://" + args[0] + args[1])
	ts.Check(err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	ts.Check(err)
	if strconv.Itoa(response.StatusCode) != args[2] || !strings.Contains(string(body), strings.Join(args[3:], " ")) {
		ts.Fatalf("%s: %s", response.Status, body)
	}
}

// sleep gives a program time for what no other sign tells of: sleep 200ms
func sleep(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: sleep TIME")
	}
	d, err := time.ParseDuration(args[0])
	ts.Check(err)
	time.Sleep(d)
}

// signals are those that sessions send.
var signals = map[string]syscall.Signal{"TERM": syscall.SIGTERM, "INT": syscall.SIGINT, "HUP": syscall.SIGHUP, "QUIT": syscall.SIGQUIT, "KILL": syscall.SIGKILL}

// send sends a signal to the command that was begun last in the background: signal TERM
func send(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 || signals[args[0]] == 0 {
		ts.Fatalf("usage: signal NAME")
	}
	commands := ts.BackgroundCmds()
	ts.Check(commands[len(commands)-1].Process.Signal(signals[args[0]]))
}

// force frees a key whoever has it: force KEY
func force(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: force KEY")
	}
	_, err := ts.Value(storeKey{}).(lockStore).ForceRelease(context.Background(), args[0])
	ts.Check(err)
}

func poll(ts *testscript.TestScript, what string, holds func() bool) {
	for end := ts.Value(endKey{}).(time.Time); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			ts.Fatalf("still not: %s", what)
		}
	}
}
