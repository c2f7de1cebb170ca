package main

import (
	"bufio"
	"bytes"
	"database/sql"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/testserver"
	mysqllock "github.com/rowlock/rowlock/mysql"
)

// tree is a command with children of every kind. Each process that must be dead in the end writes a
// line "NAME PID" when it is ready.
const tree = `
sh -c 'echo plain $$; exec sleep 120' &
sh -c 'trap "" TERM HUP INT; echo deaf $$; sleep 120; sleep 120' &
setsid sh -c 'echo session $$; exec sleep 120' &
setsid sh -c 'trap "" TERM HUP; (sh -c "echo orphan \$\$; exec sleep 120" & ); echo deafsession $$; sleep 120; sleep 120' &
sh -c 'echo stopped $$; kill -STOP $$; sleep 120' &
echo command $$
wait
sleep 120
`

const treeSize = 7

// witness is a run of rowlock whose command is the tree.
type witness struct {
	t    *testing.T
	cmd  *exec.Cmd
	pids map[string]int
	gone chan struct{} // closed when no process below is left that has the pipe
}

// startTree starts the tree under key. With every process of it, and with rowlock itself, goes the end
// of a pipe: it is closed when all of them are dead.
func startTree(t *testing.T, place place, key string, flags ...string) *witness {
	t.Helper()
	return startTreeTo(t, &prefixed{t: t}, place, key, flags...)
}

// startTreeTo has another stderr.
func startTreeTo(t *testing.T, stderr io.Writer, place place, key string, flags ...string) *witness {
	t.Helper()
	alive, end, err := os.Pipe()
	must(t, err)
	args := append(append([]string{"run"}, flags...), key, "--", "sh", "-c", tree)
	w := &witness{t: t, pids: make(map[string]int), gone: make(chan struct{})}
	w.cmd = exec.Command(filepath.Join(bin, "rowlock"), args...)
	w.cmd.Env = place.environment()
	w.cmd.ExtraFiles = []*os.File{end}
	w.cmd.Stderr = stderr
	w.cmd.WaitDelay = time.Second // where the test fails processes live that have it too
	out, err := w.cmd.StdoutPipe()
	must(t, err)
	must(t, w.cmd.Start())
	must(t, end.Close())
	go func() {
		defer close(w.gone)
		_, _ = io.Copy(io.Discard, alive)
	}()
	lines := bufio.NewScanner(out)
	for len(w.pids) < treeSize && lines.Scan() {
		name, pid, _ := strings.Cut(lines.Text(), " ")
		w.pids[name], err = strconv.Atoi(pid)
		must(t, err)
	}
	if len(w.pids) < treeSize {
		t.Fatalf("only %v are there", w.pids)
	}
	w.pids["run"] = w.cmd.Process.Pid
	w.pids["guard"] = parent(t, w.pids["command"])
	t.Cleanup(func() {
		for _, pid := range w.pids {
			if !ended(pid) {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
		_ = w.cmd.Wait()
	})
	return w
}

// alive are the processes that live.
func (w *witness) alive() (names []string) {
	for name, pid := range w.pids {
		if !ended(pid) {
			names = append(names, name)
		}
	}
	return names
}

func parent(t *testing.T, pid int) int {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	must(t, err)
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	n, err := strconv.Atoi(fields[1])
	must(t, err)
	return n
}

// ended reports whether a process does nothing any more: nobody may have asked for its exit code yet.
func ended(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true
	}
	state := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))[0]
	return state == "Z" || state == "X"
}

// prefixed shows stderr in the test's log.
type prefixed struct{ t *testing.T }

func (p *prefixed) Write(b []byte) (int, error) {
	p.t.Logf("stderr: %s", bytes.TrimSpace(b))
	return len(b), nil
}

// wait waits for the end of all processes.
func (w *witness) wait() {
	w.t.Helper()
	select {
	case <-w.gone:
	case <-time.After(testserver.Patience(w.t)):
		w.t.Fatalf("these live still: %v", w.alive())
	}
}

// next starts another run of the key, which waits for it and then looks whether a process of the tree
// lives. The report is empty if none does.
func (w *witness) next(place place) (wait func()) {
	w.t.Helper()
	token := inspect(w.t, place.store, "k").Token
	var report bytes.Buffer
	script := w.look()
	if place.session {
		script = "n=0; while [ $((n+=1)) -lt 100 ]; do [ -z \"$(" + script + ")\" ] && exit; sleep 0.02; done\n" + script
	}
	cmd := exec.Command(filepath.Join(bin, "rowlock"), "run", "k", "--", "sh", "-c", "echo $ROWLOCK_TOKEN\n"+script)
	cmd.Env = place.environment()
	cmd.Stdout, cmd.Stderr = &report, &prefixed{t: w.t}
	must(w.t, cmd.Start())
	eventually(w.t, "somebody waits for the key", func() bool { return place.waited(w.t) })
	return func() {
		w.t.Helper()
		must(w.t, cmd.Wait())
		first, living, _ := strings.Cut(report.String(), "\n")
		if living != "" {
			w.t.Errorf("P28: another has the key while these live:\n%s", living)
		}
		if next, err := strconv.ParseInt(first, 10, 64); err != nil || next <= token {
			w.t.Errorf("the next holder had no later token: %s after %d", first, token)
		}
	}
}

// place is where the locks of a test are.
type place struct {
	address, strategy string
	session           bool // the key is free as soon as its holder is dead: processes may live for a moment
	store             lockStore
	sql               *sql.DB
}

// namedPlace makes a place.
type namedPlace struct {
	name string
	make func(t *testing.T) place
}

// places are all kinds of them. Each call of make makes a database.
var places = []namedPlace{
	{"mysql/version", sqlPlace(testserver.MySQL, mysqllock.VersionColumn)},
	{"mysql/unique", sqlPlace(testserver.MySQL, mysqllock.UniqueInsert)},
	{"mysql/for-update", sqlPlace(testserver.MySQL, mysqllock.SelectForUpdate)},
	{"mariadb/version", sqlPlace(testserver.MariaDB, mysqllock.VersionColumn)},
	{"mariadb/for-update", sqlPlace(testserver.MariaDB, mysqllock.SelectForUpdate)},
	{"mongo", func(t *testing.T) place {
		p := place{address: database(t, testserver.Mongo)}
		p.store = open(t, p.address)
		must(t, p.store.Migrate(t.Context()))
		return p
	}},
}

func sqlPlace(kind string, strategy mysqllock.Strategy) func(t *testing.T) place {
	return func(t *testing.T) place {
		return sqlPlaceAt(t, database(t, kind), strategy)
	}
}

func sqlPlaceAt(t *testing.T, address string, strategy mysqllock.Strategy) place {
	t.Helper()
	p := place{address: address, strategy: strategy.String(), session: strategy == mysqllock.SelectForUpdate}
	store, err := mysqllock.Open(address, mysqllock.Options{Strategy: strategy})
	must(t, err)
	t.Cleanup(func() { _ = store.Close() })
	must(t, store.Migrate(t.Context()))
	u, err := url.Parse(address)
	must(t, err)
	p.sql, err = sql.Open("mysql", u.User.String()+"@tcp("+u.Host+")"+u.Path)
	must(t, err)
	t.Cleanup(func() { _ = p.sql.Close() })
	p.store = store
	return p
}

// environment is that of a run which has its locks there.
func (p place) environment() []string {
	e := append(os.Environ(), "ROWLOCK_DB="+p.address)
	if p.strategy != "" {
		e = append(e, "ROWLOCK_STRATEGY="+p.strategy)
	}
	return e
}

// waited reports whether somebody waits for the key k: in the server's queue, where there is one.
func (p place) waited(t *testing.T) bool {
	t.Helper()
	if !p.session {
		return inspect(t, p.store, "k").Waiting > 0
	}
	var n int
	must(t, p.sql.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM information_schema.processlist WHERE db = DATABASE() AND id <> CONNECTION_ID() AND info LIKE '%FOR UPDATE%'").Scan(&n))
	return n > 0
}

// TestP28_NoProcessOutlivesTheLease: whichever process of a run is killed or stands still, no process
// of the command lives when another gets the key, also one that ignores TERM, has a session of its own,
// has lost its parent, or is stopped. With for-update some may live for a moment where the run is killed, or its
// session ended.
func TestP28_NoProcessOutlivesTheLease(t *testing.T) {
	for i, c := range []struct {
		name, victim string
		signal       syscall.Signal
		stop         bool // by a TERM to the run, which goes on otherwise
		exit         int  // of the run; -1: killed
	}{
		{name: "run killed", victim: "run", signal: syscall.SIGKILL, exit: -1},
		{name: "guard killed", victim: "guard", signal: syscall.SIGKILL, exit: 137},
		{name: "command killed", victim: "command", signal: syscall.SIGKILL, exit: 137},
		{name: "child killed", victim: "plain", signal: syscall.SIGKILL, stop: true, exit: 143},
		{name: "session killed", victim: "deafsession", signal: syscall.SIGKILL, stop: true, exit: 143},
		{name: "run asked to end", victim: "run", signal: syscall.SIGTERM, exit: 143},
		{name: "run stands still", victim: "run", signal: syscall.SIGSTOP, exit: 79},
		{name: "guard stands still", victim: "guard", signal: syscall.SIGSTOP, stop: true, exit: 137},
		{name: "database session ended", exit: 79},
	} {
		of := slices.Clone(places)
		if c.victim == "" { // only there is one
			of = slices.DeleteFunc(of, func(p namedPlace) bool { return !strings.HasSuffix(p.name, "for-update") })
		}
		if testing.Short() {
			of = of[i%len(of):][:1]
		}
		for _, where := range of {
			t.Run(c.name+"/"+where.name, func(t *testing.T) {
				t.Parallel()
				place := where.make(t)
				grace := "1s"
				if place.session {
					grace = "5s" // a moment is less
				}
				w := startTree(t, place, "k", "--ttl", "15s", "--kill-after", grace, "--leftovers", "kill")
				wait := w.next(place)
				if c.victim == "" {
					_, err := place.store.ForceRelease(t.Context(), "k")
					must(t, err)
				} else {
					must(t, syscall.Kill(w.pids[c.victim], c.signal))
				}
				if c.stop {
					must(t, syscall.Kill(w.pids["run"], syscall.SIGTERM))
				}
				wait()
				if c.victim == "run" && c.signal == syscall.SIGSTOP {
					must(t, syscall.Kill(w.pids["run"], syscall.SIGCONT))
				}
				w.wait()
				_ = w.cmd.Wait()
				if got := w.cmd.ProcessState.ExitCode(); got != c.exit {
					t.Errorf("exit code %d, want %d", got, c.exit)
				}
			})
		}
	}
}

// TestP28_OutageOfTheDatabase: a command whose lease cannot be renewed is ended before another can get
// the key, and the exit code says so.
func TestP28_OutageOfTheDatabase(t *testing.T) {
	t.Parallel()
	server := testserver.Start(t, testserver.MySQL)
	config, err := mysql.ParseDSN(server.DSN())
	must(t, err)
	address := fmt.Sprintf("mysql://%s:%s@%s/%s", config.User, config.Passwd, config.Addr, config.DBName)
	place := sqlPlaceAt(t, address, mysqllock.VersionColumn)
	w := startTree(t, place, "k", "--ttl", "10s", "--kill-after", "2s")
	wait := w.next(place)
	server.Pause()
	w.wait()
	server.Resume()
	wait()
	_ = w.cmd.Wait()
	if got := w.cmd.ProcessState.ExitCode(); got != 79 {
		t.Errorf("exit code %d, want 79", got)
	}
}

// look is a script that writes the names of those that live.
func (w *witness) look() string {
	var b strings.Builder
	for name, pid := range w.pids {
		if name == "run" || name == "guard" {
			continue
		}
		fmt.Fprintf(&b, "[ -d /proc/%[2]d ] && ! grep -q '^State:.[ZX]' /proc/%[2]d/status && echo %[1]s %[2]d\n", name, pid)
	}
	return b.String() + "true"
}

func inspect(t *testing.T, store lockStore, key string) driver.Info {
	t.Helper()
	infos, err := store.Inspect(t.Context(), []string{key})
	must(t, err)
	return infos[0]
}
