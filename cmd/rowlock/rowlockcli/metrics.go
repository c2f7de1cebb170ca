package rowlockcli

import (
	"context"
	"time"

	"github.com/rowlock/rowlock/driver"
)

// The metrics of a run, for the textfile collector of Prometheus' node_exporter.
const (
	metricFirst   = "rowlock_run_first_start_timestamp_seconds"
	metricStart   = "rowlock_run_last_start_timestamp_seconds"
	metricSuccess = "rowlock_run_last_success_timestamp_seconds"
	metricCode    = "rowlock_run_last_exit_code"
	metricSeconds = "rowlock_run_last_duration_seconds"
	metricPeriod  = "rowlock_run_period_seconds"
	metricSkipped = "rowlock_run_skipped_total"
	metricLost    = "rowlock_run_lost_total"
)

var metricHelp = map[string]string{
	metricFirst:   "gauge When rowlock run was called with this file first, seconds since 1970, whatever became of it.",
	metricStart:   "gauge When the command was started last, seconds since 1970.",
	metricSuccess: "gauge When the command ended with exit code 0 last, seconds since 1970; with --run and --period on any host.",
	metricCode:    "gauge The exit code of rowlock run when the command was run last.",
	metricSeconds: "gauge How long the command took last.",
	metricPeriod:  "gauge The time between two runs, as --period says.",
	metricSkipped: "counter Calls that did not run the command, because the key was held or the run was made before.",
	metricLost:    "counter Runs whose lease was lost before the command ended (exit code 79): they may not have been alone.",
}

// note changes the metrics and writes them. That must not keep a command from being run.
func (r *run) note(change func(values map[string]float64)) {
	if r.f.metricsFile == "" {
		return
	}
	err := changeMetrics(r.f.metricsFile, r.key, func(values map[string]float64) {
		if r.f.period > 0 {
			values[metricPeriod] = time.Duration(r.f.period).Seconds()
		}
		values[metricSkipped] += 0
		values[metricLost] += 0
		change(values)
	})
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

// noteCall is at the beginning of each call, before the database is asked: a job that never gets there has never succeeded
// either.
func (r *run) noteCall() {
	r.note(func(values map[string]float64) {
		if values[metricFirst] == 0 {
			values[metricFirst] = seconds(r.began)
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
		if code == exitLost {
			values[metricLost]++
		}
	})
}

func seconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }
