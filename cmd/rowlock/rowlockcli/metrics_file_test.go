package rowlockcli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// TestMetricsOfSeveralJobs: jobs with one file of metrics, at the same time, erase nothing of each other.
func TestMetricsOfSeveralJobs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "jobs.prom")
	const jobs, times = 8, 10
	var wait sync.WaitGroup
	for job := range jobs {
		wait.Go(func() {
			for range times {
				if err := changeMetrics(path, fmt.Sprintf("job %d} 7", job), func(values map[string]float64) { values[metricSkipped]++ }); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wait.Wait()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for job := range jobs {
		if line := fmt.Sprintf("%s{key=\"job %d} 7\"} %d\n", metricSkipped, job, times); !strings.Contains(string(text), line) {
			t.Errorf("there is no line %s", line)
		}
	}
	if n := strings.Count(string(text), "# TYPE "+metricSkipped+" "); n != 1 {
		t.Errorf("the type is there %d times", n)
	}
	if t.Failed() {
		t.Logf("%s", text)
	}
}

// TestMetricsOfAnotherVersion: what this version does not know stays.
func TestMetricsOfAnotherVersion(t *testing.T) {
	path := filepath.Join(t.TempDir(), "jobs.prom")
	const line = "rowlock_run_of_tomorrow{key=\"other\"} NaN\n"
	if err := os.WriteFile(path, []byte(line), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := changeMetrics(path, "mine", func(values map[string]float64) { values[metricCode] = 3 }); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil || !strings.Contains(string(text), line) || !strings.Contains(string(text), metricCode+"{key=\"mine\"} 3\n") {
		t.Errorf("%v\n%s", err, text)
	}
}

// TestMetricsOfAnotherProgram: its file is left alone.
func TestMetricsOfAnotherProgram(t *testing.T) {
	for _, text := range []string{"node_load1 0.5\n", "node_cpu{cpu=\"0\"} 1\n", "# HELP x y\nnonsense\n"} {
		path := filepath.Join(t.TempDir(), "node.prom")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		err := changeMetrics(path, "mine", func(values map[string]float64) { values[metricCode] = 3 })
		if err == nil || !strings.Contains(err.Error(), "name a file of this one's own") {
			t.Errorf("%q: %v", text, err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != text {
			t.Errorf("%q became %q, %v", text, got, err)
		}
	}
}
