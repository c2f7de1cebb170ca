package report

import (
	"fmt"
	"strings"

	"github.com/rowlock/rowlock/bench/internal/number"
	"github.com/rowlock/rowlock/bench/internal/result"
	"github.com/rowlock/rowlock/bench/internal/target"
)

// Figure is a plot of a run, shown with the number that it belongs to.
type Figure struct {
	Name   string // file name without its end
	Number string
	Title  string
}

// Page is the whole report as Markdown.
func Page(f *result.File, figures []Figure) string {
	var b strings.Builder
	b.WriteString("# rowlock: benchmark report\n\n")
	b.WriteString(Run(f) + "\n## The numbers\n\n" + Targets(f))
	for _, n := range number.Numbers {
		text := Section(f, n.Name, figures, "", ".svg")
		if text == "" {
			continue
		}
		fmt.Fprintf(&b, "\n## %s: %s\n\n%s", n.Name, n.Title, text)
	}
	return b.String()
}

// Run describes the run: machine, servers, what was left out.
func Run(f *result.File) string {
	m := f.Machine
	var b strings.Builder
	fmt.Fprintf(&b, "`%s`, %s, %.0f s, medians of %d rounds (smallest–largest in brackets).\n\n", f.Command, f.Started.Format("2006-01-02 15:04"), f.Seconds, f.Rounds)
	fmt.Fprintf(&b, "* Machine: %s, %d cores, %.0f GB, %s, %s.\n", m.CPU, m.Cores, m.MemoryGB, m.System, m.Go)
	fmt.Fprintf(&b, "* Disk: an append of 512 bytes and its sync take %s ms (p50), %s ms (p99)", Number(m.FsyncP50), Number(m.FsyncP99))
	if m.SlowSync != "" {
		fmt.Fprintf(&b, "; syncs of the servers made %s slower by ROWLOCK_TEST_SYNC", m.SlowSync)
	}
	b.WriteString(".\n")
	fmt.Fprintf(&b, "* Load (1, 5, 15 minutes) before the run: %s; after it: %s.\n\n", m.LoadBefore, m.LoadAfter)
	t := Table{Head: []string{"server", "version", "durability"}}
	for _, s := range f.Servers {
		t.Rows = append(t.Rows, []string{s.Name, s.Version, s.Durability})
	}
	b.WriteString(t.Markdown())
	if len(f.Absent) > 0 {
		b.WriteString("\nNot measured:\n\n")
		for _, a := range f.Absent {
			fmt.Fprintf(&b, "* %s: %s\n", a.Name, a.Reason)
		}
	}
	if len(f.Failed) > 0 {
		b.WriteString("\nFailed:\n\n")
		for _, text := range f.Failed {
			fmt.Fprintf(&b, "* %s\n", text)
		}
	}
	if len(f.Notes) > 0 {
		b.WriteString("\nNoticed:\n\n")
		for _, n := range f.Notes {
			fmt.Fprintf(&b, "* %s\n", n)
		}
	}
	return b.String()
}

// Targets is the table of wanted and measured, as Markdown.
func Targets(f *result.File) string { return TargetTable(f).Markdown() }

// TargetTable is the table of wanted and measured.
func TargetTable(f *result.File) Table {
	t := Table{Head: []string{"name", "server", "side", "case", "metric", "wanted", "measured", "reached"}}
	for _, o := range target.Judge(f) {
		reached := "yes"
		if !o.Reached() {
			reached = "**no**"
		}
		t.Rows = append(t.Rows, []string{o.Measurement.Number, o.Server, o.Side, o.Measurement.Case, o.Measurement.Metric, o.Wanted(), cell(&o.Measurement), reached})
	}
	return t
}

// Section is the table and the figures of one number; empty if it was not measured.
func Section(f *result.File, name string, figures []Figure, folder, ending string) string {
	t := Of(f, name)
	if len(t.Rows) == 0 {
		return ""
	}
	var b strings.Builder
	for _, g := range figures {
		if g.Number == name {
			fmt.Fprintf(&b, "![%s](%s%s%s)\n\n", g.Title, folder, g.Name, ending)
		}
	}
	b.WriteString(t.Markdown())
	return b.String()
}
