package report

import (
	"github.com/rowlock/rowlock/dev/bench/internal/result"
	"github.com/rowlock/rowlock/dev/bench/internal/target"
)

// Disks is a table of the ratios to the floor that several runs have measured on the
// same servers with faster and slower syncs: a column for each run. What one run has
// not measured is left out.
func Disks(runs []*result.File) Table {
	t := Table{Head: []string{"name", "server", "side", "case", "wanted"}}
	for _, f := range runs {
		title := "the disk as it is"
		if f.Machine.SlowSync != "" {
			title = "syncs " + f.Machine.SlowSync + " slower"
		}
		t.Head = append(t.Head, title)
	}
	for _, o := range target.Judge(runs[0]) {
		if o.Measurement.Metric != "× floor" {
			continue
		}
		row := []string{o.Measurement.Number, o.Server, o.Side, o.Measurement.Case, o.Wanted()}
		for _, f := range runs {
			if m := f.Find(o.At, o.Measurement.Metric); m != nil {
				row = append(row, cell(m))
			}
		}
		if len(row) == len(t.Head) {
			t.Rows = append(t.Rows, row)
		}
	}
	return t
}
