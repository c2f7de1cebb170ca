package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rowlock/rowlock/dev/bench/internal/result"
	"github.com/rowlock/rowlock/dev/bench/internal/target"
)

// MissedTable has the numbers that were not reached, a line for each number, case and
// metric with all servers and sides that missed it.
func MissedTable(f *result.File) Table {
	t := Table{Head: []string{"name", "case", "metric", "wanted", "reached", "missed by"}}
	type line struct {
		row     []string
		judged  int
		misses  []string
		reached int
	}
	var lines []*line
	find := func(o target.Outcome) *line {
		row := []string{o.Measurement.Number, o.Measurement.Case, o.Measurement.Metric, o.Wanted()}
		for _, l := range lines {
			if slices.Equal(l.row, row) {
				return l
			}
		}
		l := &line{row: row}
		lines = append(lines, l)
		return l
	}
	for _, o := range target.Judge(f) {
		l := find(o)
		l.judged++
		switch {
		case o.Void != "":
			l.misses = append(l.misses, fmt.Sprintf("%s %s void", o.Server, o.Side))
		case o.Reached():
			l.reached++
		default:
			l.misses = append(l.misses, fmt.Sprintf("%s %s %s", o.Server, o.Side, Number(o.Median())))
		}
	}
	for _, l := range lines {
		if len(l.misses) > 0 {
			t.Rows = append(t.Rows, append(l.row, fmt.Sprintf("%d of %d", l.reached, l.judged), strings.Join(l.misses, ", ")))
		}
	}
	return t
}
