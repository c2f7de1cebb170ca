package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rowlock/rowlock/internal/testserver"
)

// terminal is a pseudo-terminal: what a person types, and what is shown.
func terminal(t *testing.T) (keyboard, screen *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	must(t, err)
	t.Cleanup(func() { _ = master.Close() })
	must(t, unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	must(t, err)
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	must(t, err)
	return master, slave
}

// TestTerminal: in the foreground of a terminal the command reads what is typed, Ctrl-C reaches it once and
// ends nothing else, and a command that is stopped keeps its lease and can still be ended.
func TestTerminal(t *testing.T) {
	t.Parallel()
	address := database(t, testserver.MySQL)
	store := open(t, address)
	must(t, store.Migrate(t.Context()))
	keyboard, screen := terminal(t)
	const script = `
trap 'echo got INT' INT
echo ready; read line; echo "read $line"
while [ -z "$stop" ]; do read line; [ "$line" = stop ] && stop=1; done
trap 'echo got INT again; exit 9' INT
echo stopping; kill -STOP $$; while true; do sleep 0.1; done`
	cmd := exec.Command(filepath.Join(bin, "rowlock"), "run", "--ttl", "3s", "--max-hold", "2m", "k", "--", "sh", "-c", script)
	cmd.Env = append(os.Environ(), "ROWLOCK_DB="+address)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = screen, screen, screen
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 0}
	must(t, cmd.Start())
	must(t, screen.Close())
	var shown strings.Builder
	lines := bufio.NewScanner(keyboard)
	await := func(text string) {
		t.Helper()
		for lines.Scan() {
			shown.WriteString(lines.Text() + "\n")
			if strings.Contains(lines.Text(), text) {
				return
			}
		}
		t.Fatalf("%q was not shown:\n%s", text, shown.String())
	}
	write := func(text string) {
		t.Helper()
		_, err := keyboard.WriteString(text)
		must(t, err)
	}
	await("ready")
	write("hello\n")
	await("read hello")
	write("\x03")
	await("got INT")
	write("\nstop\n")
	await("stopping")
	before := inspect(t, store, "k")
	last := before.Left
	eventually(t, "the lease of the stopped command is renewed", func() bool {
		now := inspect(t, store, "k")
		if !now.Held || now.Token != before.Token {
			t.Fatalf("the key was lost: %+v", now)
		}
		renewed := now.Left > last
		last = now.Left
		return renewed
	})
	write("\x03")
	await("got INT again")
	_ = cmd.Wait()
	if got := cmd.ProcessState.ExitCode(); got != 9 {
		t.Errorf("exit code %d, want 9\n%s", got, shown.String())
	}
	if n := strings.Count(shown.String(), "got INT\n") + strings.Count(shown.String(), "got INT\r"); n != 1 {
		t.Errorf("INT came %d times:\n%s", n, shown.String())
	}
}

// TestFreeAsks: on a terminal free asks for the key, and ends nothing if another is typed; /dev/null is no terminal.
func TestFreeAsks(t *testing.T) {
	t.Parallel()
	address := database(t, testserver.MySQL)
	store := open(t, address)
	must(t, store.Migrate(t.Context()))
	run := func(in *os.File, line ...string) (string, int) {
		t.Helper()
		cmd := exec.Command(filepath.Join(bin, "rowlock"), line...)
		cmd.Env, cmd.Stdin = append(os.Environ(), "ROWLOCK_DB="+address), in
		out, _ := cmd.CombinedOutput()
		return string(out), cmd.ProcessState.ExitCode()
	}
	if out, code := run(nil, "run", "--min-hold", "1h", "k", "--", "true"); code != 0 {
		t.Fatal(out)
	}
	none, err := os.Open(os.DevNull)
	must(t, err)
	defer none.Close()
	if out, code := run(none, "free", "k"); code != 64 || !strings.Contains(out, "nobody can be asked here: add --yes --token ") {
		t.Errorf("nobody: exit code %d\n%s", code, out)
	}
	for _, c := range []struct {
		typed, says string
		code        int
		held        bool
	}{
		{"j\n", "that is not the key: nothing was ended", 1, true},
		{"k\n", "the key is free", 0, false},
	} {
		keyboard, screen := terminal(t)
		_, err := keyboard.WriteString(c.typed)
		must(t, err)
		out, code := run(screen, "free", "k")
		must(t, screen.Close())
		if code != c.code || !strings.Contains(out, "type the key to end this hold: ") || !strings.Contains(out, c.says) {
			t.Errorf("%q: exit code %d\n%s", c.typed, code, out)
		}
		if i := inspect(t, store, "k"); i.Held != c.held {
			t.Errorf("%q: %+v", c.typed, i)
		}
	}
}
