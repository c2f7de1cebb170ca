package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/testserver"
	mysqllock "github.com/rowlock/rowlock/mysql"
)

// said is what a program has written so far.
type said struct {
	mu   sync.Mutex
	text strings.Builder
}

func (s *said) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(b)
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

func (s *said) await(t *testing.T, text string) {
	t.Helper()
	eventually(t, fmt.Sprintf("%q is said", text), func() bool { return strings.Contains(s.String(), text) })
}

// TestProcessOfAnotherUser: a process that may not be signalled is named; nothing says that it was killed, the guard
// lives on, and the key is kept until it has ended. Who is not root cannot have such a process: see TestRefused of
// package guard.
func TestProcessOfAnotherUser(t *testing.T) {
	if os.Getuid() != 0 {
		return
	}
	t.Parallel()
	p := sqlPlace(testserver.MySQL, mysqllock.VersionColumn)(t)
	// The run is root without the right to signal processes of others.
	cmd := exec.Command("setpriv", "--bounding-set=-kill", filepath.Join(bin, "rowlock"), "run", "--ttl", "3s", "--kill-after", "1s", "k", "--",
		"setpriv", "--reuid=65534", "--clear-groups", "sh", "-c", "echo $$; read end; exit 3")
	var stderr said
	cmd.Env, cmd.Stderr = p.environment(), &stderr
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() { _ = in.Close(); _ = cmd.Wait() })
	var pid int
	_, err = fmt.Fscan(bufio.NewReader(out), &pid)
	must(t, err)
	guard := parent(t, pid)
	must(t, cmd.Process.Signal(syscall.SIGTERM))
	stderr.await(t, fmt.Sprintf("process %d belongs to user 65534: this program, of user 0, may not signal it", pid))
	stderr.await(t, "are killed (KILL), but for those of other users")
	before := inspect(t, p.store, "k")
	last, renewals := before.Left, 0
	eventually(t, "the lease is renewed twice", func() bool {
		now := inspect(t, p.store, "k")
		if !now.Held || now.Token != before.Token {
			t.Fatalf("the key is not held any more: %+v\n%s", now, stderr.String())
		}
		if now.Left > last {
			renewals++
		}
		last = now.Left
		return renewals == 2
	})
	if ended(guard) || ended(pid) {
		t.Errorf("guard ended: %t, command ended: %t", ended(guard), ended(pid))
	}
	must(t, in.Close())
	_ = cmd.Wait()
	if got := cmd.ProcessState.ExitCode(); got != 3 {
		t.Errorf("exit code %d, want 3\n%s", got, stderr.String())
	}
	if n := strings.Count(stderr.String(), "belongs to user"); n != 1 {
		t.Errorf("said %d times:\n%s", n, stderr.String())
	}
}

// TestMaxHoldOfAnotherUser: what --max-hold could not end may not have been alone: exit code 79, not 80.
func TestMaxHoldOfAnotherUser(t *testing.T) {
	if os.Getuid() != 0 {
		return
	}
	t.Parallel()
	p := sqlPlace(testserver.MySQL, mysqllock.VersionColumn)(t)
	cmd := exec.Command("setpriv", "--bounding-set=-kill", filepath.Join(bin, "rowlock"), "run", "--ttl", "2s", "--max-hold", "3s", "--kill-after", "0", "k", "--",
		"setpriv", "--reuid=65534", "--clear-groups", "sh", "-c", "read end")
	var stderr said
	cmd.Env, cmd.Stderr = p.environment(), &stderr
	in, err := cmd.StdinPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() { _ = in.Close(); _ = cmd.Wait() })
	stderr.await(t, "belongs to user 65534")
	must(t, in.Close())
	_ = cmd.Wait()
	if got := cmd.ProcessState.ExitCode(); got != 79 {
		t.Errorf("exit code %d, want 79\n%s", got, stderr.String())
	}
}

// TestP28_JobThatForks: a job that ignores TERM, and whose processes start others all the time and end, is dead when another has the key.
func TestP28_JobThatForks(t *testing.T) {
	t.Parallel()
	p := sqlPlace(testserver.MySQL, mysqllock.VersionColumn)(t)
	alive, end, err := os.Pipe()
	must(t, err)
	cmd := exec.Command(filepath.Join(bin, "rowlock"), "run", "--ttl", "3s", "--kill-after", "0", "k", "--", "sh", "-c",
		`trap "" TERM; hop() { hop & }; for i in 1 2 3 4 5 6 7 8; do hop & done; echo ready; sleep 120`, "forks-all-the-time-"+filepath.Base(p.address))
	cmd.Env, cmd.ExtraFiles, cmd.Stderr = p.environment(), []*os.File{end}, &prefixed{t: t}
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	must(t, end.Close())
	var ready string
	_, err = fmt.Fscan(bufio.NewReader(out), &ready)
	must(t, err)
	next := exec.Command(filepath.Join(bin, "rowlock"), "run", "k", "--", "sh", "-c", "grep -l '[f]orks-all-the-time-"+filepath.Base(p.address)+"' /proc/[0-9]*/cmdline 2>/dev/null; true")
	next.Env, next.Stderr = p.environment(), &prefixed{t: t}
	report, err := next.StdoutPipe()
	must(t, err)
	must(t, next.Start())
	eventually(t, "somebody waits", func() bool { return p.waited(t) })
	must(t, cmd.Process.Signal(syscall.SIGSTOP))
	found, err := io.ReadAll(report)
	must(t, err)
	must(t, next.Wait())
	must(t, cmd.Process.Signal(syscall.SIGCONT))
	run := fmt.Sprintf("/proc/%d/cmdline\n", cmd.Process.Pid) // which stands still, and has the command's line too
	if found := strings.Replace(string(found), run, "", 1); found != "" {
		t.Errorf("P28: another has the key while these live:\n%s", found)
	}
	gone := make(chan struct{})
	go func() { _, _ = io.Copy(io.Discard, alive); close(gone) }()
	select {
	case <-gone:
	case <-time.After(testserver.Patience(t)):
		t.Error("processes of the job live still")
	}
	_ = cmd.Wait()
	if got := cmd.ProcessState.ExitCode(); got != 79 {
		t.Errorf("exit code %d, want 79", got)
	}
}

// TestForeignProc: in a PID namespace with the /proc of another one the command and its process group are ended, and
// the run says that it sees no more.
func TestForeignProc(t *testing.T) {
	t.Parallel()
	unshare := []string{"unshare", "--user", "--map-root-user", "--pid", "--fork"}
	if out, err := exec.Command(unshare[0], append(unshare[1:], "true")...).CombinedOutput(); err != nil {
		t.Logf("this machine allows no namespaces, and nothing was tested: %s", out)
		return
	}
	p := sqlPlace(testserver.MySQL, mysqllock.VersionColumn)(t)
	cmd := exec.Command(unshare[0], append(unshare[1:], filepath.Join(bin, "rowlock"), "run", "--ttl", "6s", "--kill-after", "1s", "k", "--",
		"sh", "-c", `trap "" TERM; echo ready; sleep 120 & wait; wait`)...)
	var stderr said
	cmd.Env, cmd.Stderr = p.environment(), &stderr
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	var ready string
	_, err = fmt.Fscan(bufio.NewReader(out), &ready)
	must(t, err)
	_, err = p.store.ForceRelease(t.Context(), "k")
	must(t, err)
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(testserver.Patience(t)):
		t.Fatalf("it runs still:\n%s", stderr.String())
	}
	if got := cmd.ProcessState.ExitCode(); got != 79 {
		t.Errorf("exit code %d, want 79\n%s", got, stderr.String())
	}
	if !strings.Contains(stderr.String(), "/proc does not show the processes of this PID namespace") {
		t.Errorf("it does not say what it cannot see:\n%s", stderr.String())
	}
}

// TestTermTwice: timeout(1) sends TERM to the process and to its group, which is one wish to end; another one later kills.
func TestTermTwice(t *testing.T) {
	t.Parallel()
	p := sqlPlace(testserver.MySQL, mysqllock.VersionColumn)(t)
	const script = `trap 'echo told; read line; sleep 0.3; exit 3' TERM; echo ready; while :; do sleep 0.05; done`
	for _, again := range []bool{false, true} {
		for {
			cmd := exec.Command(filepath.Join(bin, "rowlock"), "run", "--max-hold", "2m", "--kill-after", "20s", "k", "--", "sh", "-c", script)
			cmd.Env, cmd.Stderr = p.environment(), &prefixed{t: t}
			in, err := cmd.StdinPipe()
			must(t, err)
			out, err := cmd.StdoutPipe()
			must(t, err)
			must(t, cmd.Start())
			lines := bufio.NewScanner(out)
			await := func(text string) {
				for lines.Scan() && lines.Text() != text {
				}
			}
			await("ready")
			first := time.Now()
			must(t, cmd.Process.Signal(syscall.SIGTERM))
			await("told")
			want := 3
			if again {
				time.Sleep(1100 * time.Millisecond) // it had the first one when the command was told
				want = 137
			}
			must(t, cmd.Process.Signal(syscall.SIGTERM))
			together := time.Since(first) < 500*time.Millisecond
			if !again {
				_, err := io.WriteString(in, "more\n")
				must(t, err)
			}
			_ = cmd.Wait()
			if !again && !together {
				continue // the machine is too busy to send two within a second
			}
			if got := cmd.ProcessState.ExitCode(); got != want {
				t.Errorf("again %t: exit code %d, want %d", again, got, want)
			}
			break
		}
	}
	if i := inspect(t, p.store, "k"); i.Held {
		t.Errorf("the key is held: %+v", driver.Info(i))
	}
}
