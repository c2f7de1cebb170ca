package benchcli

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rowlock/rowlock/dev/bench/internal/result"
	"github.com/rowlock/rowlock/internal/testserver"
)

// TestMain is the command itself where a test has started it.
func TestMain(m *testing.M) {
	if args := os.Getenv("ROWLOCK_BENCH_TEST_ARGS"); args != "" {
		os.Args = append(os.Args[:1], strings.Fields(args)...)
		Main()
		return
	}
	os.Exit(m.Run())
}

// TestInterrupted: a run that is ended by SIGTERM leaves what it has measured, and
// says that it is partial.
func TestInterrupted(t *testing.T) {
	testserver.DSN(t, testserver.MySQL) // or skip
	out := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	bench := exec.CommandContext(ctx, os.Args[0])
	bench.Env = append(os.Environ(), "ROWLOCK_BENCH_TEST_ARGS=-short -rounds 1000 -peers=false -servers mysql -only engine,N1,N5 -out "+out)
	said, err := bench.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := bench.Start(); err != nil {
		t.Fatal(err)
	}
	var log []string
	signalled := false
	for lines := bufio.NewScanner(said); lines.Scan(); {
		log = append(log, lines.Text())
		if !signalled && strings.HasPrefix(lines.Text(), "… N1 round") && !strings.HasPrefix(lines.Text(), "… N1 round 1 ") {
			signalled = true
			if err := bench.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := bench.Wait(); err == nil || !signalled {
		t.Fatalf("interrupted: %v, ended with %v:\n%s", signalled, err, strings.Join(log, "\n"))
	}
	f, err := result.Read(filepath.Join(out, "results.json"))
	if err != nil {
		t.Fatalf("%v:\n%s", err, strings.Join(log, "\n"))
	}
	if !strings.Contains(f.Partial, "interrupted in N1") {
		t.Errorf("results.json says %q", f.Partial)
	}
	if !slices.ContainsFunc(f.Measurements, func(m *result.Measurement) bool { return m.Number == "N1" && len(m.Values) > 0 }) {
		t.Error("results.json has no round of N1")
	}
	page, err := os.ReadFile(filepath.Join(out, "report.md"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), "**This run is partial: ") {
		t.Errorf("report.md does not say that it is partial:\n%.600s", page)
	}
}
