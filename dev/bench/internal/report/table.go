// Package report writes what was found: tables on the terminal and in Markdown.
package report

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/rowlock/rowlock/dev/bench/internal/lab"
	"github.com/rowlock/rowlock/dev/bench/internal/result"
)

// Table is rows of cells below a heading.
type Table struct {
	Head []string
	Rows [][]string
}

// Of makes the table of a number: a line for each case and side, a column for each
// metric. A cell is the median, with the spread where there were several rounds.
func Of(f *result.File, number string) Table {
	var metrics []string
	var lines []result.At
	cells := map[result.At]map[string]string{}
	for _, m := range f.Measurements {
		if m.Number != number {
			continue
		}
		if !slices.Contains(metrics, m.Metric) {
			metrics = append(metrics, m.Metric)
		}
		if cells[m.At] == nil {
			cells[m.At] = map[string]string{}
			lines = append(lines, m.At)
		}
		cells[m.At][m.Metric] = cell(m)
	}
	slices.SortStableFunc(lines, func(a, b result.At) int {
		if d := rank(a.Server) - rank(b.Server); d != 0 {
			return d
		}
		if a.Server != b.Server {
			return strings.Compare(a.Server, b.Server)
		}
		if a.X != b.X && number != "N4" {
			return int(math.Copysign(1, a.X-b.X))
		}
		if d := strings.Compare(a.Case, b.Case); d != 0 {
			return d
		}
		return strings.Compare(a.Side, b.Side)
	})
	cased := slices.ContainsFunc(lines, func(a result.At) bool { return a.Case != "" })
	t := Table{Head: []string{"server", "side"}}
	if cased {
		t.Head = []string{"server", "case", "side"}
	}
	t.Head = append(t.Head, metrics...)
	for _, at := range lines {
		row := []string{at.Server, at.Side}
		if cased {
			row = []string{at.Server, at.Case, at.Side}
		}
		for _, m := range metrics {
			row = append(row, cells[at][m])
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// rank orders servers: databases first, in their order.
func rank(server string) int {
	if i := slices.Index(lab.Databases, server); i >= 0 {
		return i
	}
	return len(lab.Databases)
}

func cell(m *result.Measurement) string {
	if m.Void != "" {
		return "void"
	}
	if len(m.Values) == 1 {
		return Number(m.Median())
	}
	least, most := m.Spread()
	if least == most {
		return Number(least)
	}
	return fmt.Sprintf("%s (%s–%s)", Number(m.Median()), Number(least), Number(most))
}

// Number is a value with about three digits.
func Number(v float64) string {
	switch a := math.Abs(v); {
	case v == math.Trunc(v) && a < 1e6:
		return fmt.Sprintf("%.0f", v)
	case a >= 100:
		return fmt.Sprintf("%.0f", v)
	case a >= 10:
		return fmt.Sprintf("%.1f", v)
	case a >= 0.1:
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.3f", v)
}

// Markdown is the table as Markdown.
func (t Table) Markdown() string {
	var b strings.Builder
	line := func(cells []string) {
		b.WriteString("| " + strings.Join(cells, " | ") + " |\n")
	}
	line(t.Head)
	rule := make([]string, len(t.Head))
	for i, h := range t.Head {
		rule[i] = "--:"
		if slices.Contains([]string{"server", "case", "side", "what", "name", "reason", "metric", "version", "durability"}, h) {
			rule[i] = "---"
		}
	}
	line(rule)
	for _, r := range t.Rows {
		line(r)
	}
	return b.String()
}

// Text is the table in columns, for a terminal.
func (t Table) Text() string {
	widths := make([]int, len(t.Head))
	for _, r := range append([][]string{t.Head}, t.Rows...) {
		for i, c := range r {
			widths[i] = max(widths[i], utf8.RuneCountInString(c))
		}
	}
	var b strings.Builder
	for _, r := range append([][]string{t.Head}, t.Rows...) {
		var line strings.Builder
		for i, c := range r {
			line.WriteString(c + strings.Repeat(" ", widths[i]-utf8.RuneCountInString(c)+2))
		}
		b.WriteString("  " + strings.TrimRight(line.String(), " ") + "\n")
	}
	return b.String()
}
