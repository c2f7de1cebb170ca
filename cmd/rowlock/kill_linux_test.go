package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/testserver"
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
func startTree(t *testing.T, address, key string, flags ...string) *witness {
	t.Helper()
	alive, end, err := os.Pipe()
	must(t, err)
	args := append(append([]string{"run"}, flags...), key, "--", "sh", "-c", tree)
	w := &witness{t: t, pids: make(map[string]int), gone: make(chan struct{})}
	w.cmd = exec.Command(filepath.Join(bin, "rowlock"), args...)
	w.cmd.Env = append(os.Environ(), "ROWLOCK_DB="+address)
	w.cmd.ExtraFiles = []*os.File{end}
	w.cmd.Stderr = &prefixed{t: t}
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
	case <-time.After(time.Minute):
		w.t.Fatalf("a minute has passed, and these live: %v", w.alive())
	}
}

// next starts another run of the key, which waits for it and then looks whether a process of the tree
// lives. The report is empty if none does.
func (w *witness) next(address string, store lockStore) (wait func()) {
	w.t.Helper()
	token := inspect(w.t, store, "k").Token
	var report bytes.Buffer
	cmd := exec.Command(filepath.Join(bin, "rowlock"), "run", "k", "--", "sh", "-c", w.look())
	cmd.Env = append(os.Environ(), "ROWLOCK_DB="+address)
	cmd.Stdout, cmd.Stderr = &report, &prefixed{t: w.t}
	must(w.t, cmd.Start())
	eventually(w.t, "somebody waits for the key", func() bool { return inspect(w.t, store, "k").Wanted.Client != 0 })
	return func() {
		w.t.Helper()
		must(w.t, cmd.Wait())
		if report.Len() > 0 {
			w.t.Errorf("P28: another has the key while these live:\n%s", report.String())
		}
		if now := inspect(w.t, store, "k").Token; now <= token {
			w.t.Errorf("the next holder had no later token: %d after %d", now, token)
		}
	}
}

// TestP28_NoProcessOutlivesTheLease: whichever process of a run is killed or stands still, no process
// of the command lives when another gets the key, also one that ignores TERM, has a session of its own,
// has lost its parent, or is stopped.
func TestP28_NoProcessOutlivesTheLease(t *testing.T) {
	for _, c := range []struct {
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
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			address := database(t, testserver.MySQL)
			store := open(t, address)
			must(t, store.Migrate(t.Context()))
			w := startTree(t, address, "k", "--ttl", "15s", "--kill-after", "1s", "--leftovers", "kill")
			wait := w.next(address, store)
			must(t, syscall.Kill(w.pids[c.victim], c.signal))
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

// TestP28_OutageOfTheDatabase: a command whose lease cannot be renewed is ended before another can get
// the key, and the exit code says so.
func TestP28_OutageOfTheDatabase(t *testing.T) {
	t.Parallel()
	server := testserver.Start(t, testserver.MySQL)
	config, err := mysql.ParseDSN(server.DSN())
	must(t, err)
	address := fmt.Sprintf("mysql://%s:%s@%s/%s", config.User, config.Passwd, config.Addr, config.DBName)
	store := open(t, address)
	must(t, store.Migrate(t.Context()))
	w := startTree(t, address, "k", "--ttl", "10s", "--kill-after", "2s")
	wait := w.next(address, store)
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
