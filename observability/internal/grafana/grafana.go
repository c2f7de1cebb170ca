// Package grafana reads the dashboard.
package grafana

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"time"
)

// Dashboard is what is read of grafana.json.
type Dashboard struct {
	Templating struct {
		List []struct {
			Name       string
			Definition string
		}
	}
	Panels []Panel
}

// Panel is a diagram, or a row: the heading of those that follow.
type Panel struct {
	Title, Type string
	Targets     []Target
	FieldConfig struct {
		Defaults struct {
			Unit     string
			Min, Max *float64
		}
	}
}

// IsRow reports whether it is a heading.
func (p Panel) IsRow() bool { return p.Type == "row" }

// Target is what a panel asks Prometheus.
type Target struct {
	Expr         string
	LegendFormat string
}

// Read reads a dashboard from a file.
func Read(file string) (d Dashboard, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return d, err
	}
	if err := json.Unmarshal(text, &d); err != nil {
		return d, fmt.Errorf("%s: %w", file, err)
	}
	return d, nil
}

// Query is the expression with the values that Grafana puts in where every job, client and lock is chosen, and with
// rate as $__rate_interval, which Grafana takes from the time between two scrapes.
func (t Target) Query(rate time.Duration) string {
	return strings.NewReplacer("$job", ".*", "$client", ".*", "$lock", ".*", "$__rate_interval", fmt.Sprintf("%.0fs", rate.Seconds())).Replace(t.Expr)
}

var label = regexp.MustCompile(`\{\{ *([a-zA-Z_]+) *\}\}`)

// Legend names a series by its labels.
func (t Target) Legend(metric map[string]string) string {
	return strings.TrimSpace(label.ReplaceAllStringFunc(t.LegendFormat, func(of string) string {
		return metric[label.FindStringSubmatch(of)[1]]
	}))
}
