package rowlockcli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/rowlock/rowlock/driver"
)

// The metrics of a run, for the textfile collector of Prometheus' node_exporter.
const (
	metricStart   = "rowlock_run_last_start_timestamp_seconds"
	metricSuccess = "rowlock_run_last_success_timestamp_seconds"
	metricCode    = "rowlock_run_last_exit_code"
	metricSeconds = "rowlock_run_last_duration_seconds"
	metricPeriod  = "rowlock_run_period_seconds"
	metricSkipped = "rowlock_run_skipped_total"
)

var metricHelp = map[string]string{
	metricStart:   "gauge When the command was started last, seconds since 1970.",
	metricSuccess: "gauge When the command ended with exit code 0 last, seconds since 1970; with --run and --period on any host.",
	metricCode:    "gauge The exit code of rowlock run when the command was run last.",
	metricSeconds: "gauge How long the command took last.",
	metricPeriod:  "gauge The time between two runs, as --period says.",
	metricSkipped: "counter Calls that did not run the command, because the key was held or the run was made before.",
}

// metrics is a file of metrics of one key, with what was in it before.
type metrics struct {
	path, key string
	values    map[string]float64
}

// openMetrics reads the file, if it is there: the time of the last success and the counter go on.
func openMetrics(path, key string) (*metrics, error) {
	m := &metrics{path: path, key: key, values: make(map[string]float64)}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return m, nil
	} else if err != nil {
		return nil, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		name, value, ok := strings.Cut(lines.Text(), m.label()+" ")
		if _, ours := metricHelp[name]; !ok || !ours {
			continue
		}
		if v, err := strconv.ParseFloat(value, 64); err == nil {
			m.values[name] = v
		}
	}
	return m, lines.Err()
}

func (m *metrics) label() string {
	return `{key="` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(strings.ToValidUTF8(m.key, "\uFFFD")) + `"}`
}

// write writes the file as a whole: a reader sees the old one or the new one.
func (m *metrics) write() (err error) {
	var names []string
	for name := range m.values {
		names = append(names, name)
	}
	sort.Strings(names)
	var b strings.Builder
	for _, name := range names {
		kind, help, _ := strings.Cut(metricHelp[name], " ")
		fmt.Fprintf(&b, "# HELP %[1]s %[2]s\n# TYPE %[1]s %[3]s\n%[1]s%[4]s %[5]s\n", name, help, kind, m.label(), strconv.FormatFloat(m.values[name], 'f', -1, 64))
	}
	f, err := os.CreateTemp(filepath.Dir(m.path), ".rowlock-*") // not *.prom: nobody reads it
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	_, err = f.WriteString(b.String())
	if err = errors.Join(err, f.Chmod(0o644), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), m.path)
}

// note changes the metrics and writes them. That must not keep a command from being run.
func (r *run) note(change func(values map[string]float64)) {
	if r.f.metricsFile == "" {
		return
	}
	m, err := openMetrics(r.f.metricsFile, r.key)
	if err == nil {
		if r.f.period > 0 {
			m.values[metricPeriod] = time.Duration(r.f.period).Seconds()
		}
		m.values[metricSkipped] += 0
		change(m.values)
		err = m.write()
	}
	if err != nil {
		r.warn("the file of metrics: " + err.Error())
	}
}

// noteSkipped counts a call that ran nothing. Where runs are marked after their success, that of
// another host counts here too, or the host that is never the first would seem to fail.
func (r *run) noteSkipped() {
	r.note(func(values map[string]float64) {
		values[metricSkipped]++
		if lister, ok := r.store.Store.(driver.MarkLister); ok && r.f.marks() && r.f.mark == "success" {
			ctx, cancel := context.WithTimeout(context.Background(), time.Duration(r.flags.timeout))
			defer cancel()
			if marks, err := lister.Marks(ctx, r.key, 1); err == nil && len(marks) == 1 {
				values[metricSuccess] = max(values[metricSuccess], seconds(time.Now().Add(-marks[0].Age)))
			}
		}
	})
}

func (r *run) noteStart() {
	r.note(func(values map[string]float64) { values[metricStart] = seconds(time.Now()) })
}

func (r *run) noteEnd(took time.Duration, code int) {
	r.note(func(values map[string]float64) {
		values[metricCode], values[metricSeconds] = float64(code), took.Seconds()
		if code == 0 {
			values[metricSuccess] = seconds(time.Now())
		}
	})
}

func seconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }
