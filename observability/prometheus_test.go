package observability

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rowlock/rowlock/internal/testserver"
	"github.com/rowlock/rowlock/observability/internal/prom"
)

// tool is a program of Prometheus: on PATH, in the cache, or fetched into it.
func tool(t *testing.T, name string) string {
	t.Helper()
	path, err := prom.Find(t.Context(), name, os.Stderr)
	if errors.Is(err, prom.ErrNone) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// TestAlerts: the rules do as alerts.test.yml says.
func TestAlerts(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), tool(t, "promtool"), "test", "rules", "alerts.test.yml").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	tests, err := os.ReadFile("alerts.test.yml")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range readRules(t) {
		name := "alertname: " + r.Alert
		if n := strings.Count(string(tests), name+"\n"); n == 0 {
			t.Errorf("no test makes %s fire", r.Alert)
		}
		if !strings.Contains(string(tests), name+", exp_alerts: []") {
			t.Errorf("no test keeps %s from firing", r.Alert)
		}
	}
}

// TestPrometheus: a Prometheus scrapes a program. It finds every metric, each panel of the dashboard has an answer,
// and the alert for the leases that the program loses fires.
func TestPrometheus(t *testing.T) {
	path := tool(t, "prometheus")
	program := filepath.Join(t.TempDir(), "program")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./program").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	target := start(t, program)
	alerts, err := filepath.Abs("alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	p := serve(t, path, fmt.Sprintf("global: {scrape_interval: 1s, evaluation_interval: 1s}\nrule_files: [%q]\n"+
		"scrape_configs: [{job_name: test, static_configs: [{targets: [%q]}]}]\n", alerts, target))

	names := exported(t)
	until(t, "every metric was scraped", func() (missing string) {
		found := make(map[string]bool)
		for _, r := range p.query(t, `count by (__name__) ({__name__=~"rowlock_.*"})`) {
			found[usedIn(r.Metric["__name__"], names)[0]] = true
		}
		for _, name := range slices.Sorted(maps.Keys(names)) {
			if !found[name] {
				missing += " " + name
			}
		}
		return missing
	})
	until(t, "every panel has data", func() (empty string) {
		for _, panel := range readDashboard(t).Panels {
			for _, target := range panel.Targets {
				if !hasNumber(p.query(t, target.Query(time.Minute))) {
					empty += fmt.Sprintf(" %s (%s)", panel.Title, target.Expr)
				}
			}
		}
		return empty
	})
	until(t, "the alert fires", func() (missing string) {
		if r := p.query(t, `ALERTS{alertname="RowlockLeaseLost",alertstate="firing",client="jobs",lock="lost"}`); len(r) == 0 {
			return "RowlockLeaseLost"
		}
		return ""
	})
	for _, r := range p.query(t, `ALERTS{alertstate="firing",alertname!="RowlockLeaseLost",alertname!="RowlockTrustLow"}`) {
		t.Errorf("another alert fires: %v", r.Metric)
	}
	if r := p.query(t, `rowlock_leases_held{client="jobs"}`); len(r) != 1 || r[0].Metric["job"] != "test" {
		t.Errorf("held: %v", r)
	}
	if r := p.query(t, `histogram_quantile(0.5, sum by (le) (rate(rowlock_renewal_trust_used_ratio_bucket[1m])))`); len(r) != 1 {
		t.Errorf("trust used: %v", r)
	} else {
		t.Log("median of the trust used:", r[0].Points[0].Value)
	}
}

// hasNumber reports whether a series has one: a panel shows nothing of those that are NaN.
func hasNumber(all []prom.Series) bool {
	return slices.ContainsFunc(all, func(s prom.Series) bool {
		return slices.ContainsFunc(s.Points, func(p prom.Point) bool { return !math.IsNaN(p.Value) })
	})
}

// start runs a program that prints its address, until the test ends.
func start(t *testing.T, program string) (address string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	address, err = bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(address)
}

// promServer is one that runs until the test ends.
type promServer struct{ *prom.Server }

func serve(t *testing.T, program, config string) promServer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	s, err := prom.Start(ctx, program, config, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Close()
		if t.Failed() {
			t.Log(s.Log())
		}
	})
	return promServer{s}
}

func (p promServer) query(t *testing.T, expr string) []prom.Series {
	t.Helper()
	all, err := p.Query(t.Context(), expr)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// until waits for what a test wants: missing says what is not there yet.
func until(t *testing.T, what string, missing func() string) {
	t.Helper()
	left := ""
	for end := time.Now().Add(testserver.Patience(t)); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		if left = missing(); left == "" {
			return
		}
	}
	t.Fatalf("%s: not so, missing:%s", what, left)
}
