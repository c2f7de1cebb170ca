package report

import (
	"fmt"
	"html"
	"maps"
	"slices"
	"strings"

	"github.com/rowlock/rowlock/dev/bench/internal/number"
	"github.com/rowlock/rowlock/dev/bench/internal/result"
	"github.com/rowlock/rowlock/dev/bench/internal/target"
)

// Figure is a plot of a run, shown with the number that it belongs to.
type Figure struct {
	Name   string // file name without -light.svg and -dark.svg
	Number string // or "summary"
	Title  string
}

// summary is the Number of a figure that belongs to the table of all.
const summary = "summary"

// Page is the whole report as Markdown; explained is how it links to
// docs/performance.md.
func Page(f *result.File, figures []Figure, explained string) string {
	var b strings.Builder
	b.WriteString("# rowlock: benchmark report\n\n")
	b.WriteString(Run(f))
	if t := SummaryTable(f); len(t.Rows) > 0 {
		b.WriteString("\n## In one table\n\n" + pictures(summary, figures, "") + t.Markdown() + "\n" + summaryWords)
	}
	b.WriteString("\n## The numbers\n\n" + legend(f, explained) + "\n" + Targets(f))
	for _, n := range append(slices.Clone(number.Numbers), number.OfContest) {
		text := Section(f, n.Name, figures, "")
		if text == "" {
			continue
		}
		fmt.Fprintf(&b, "\n## %s: %s\n\n%s.\n\n%s", n.Name, n.Title, n.About, text)
	}
	return b.String()
}

// Explained is where the words and numbers are explained at length, for a report that
// lies where the page cannot be named by a relative path.
const Explained = "https://github.com/rowlock/rowlock/blob/main/docs/performance.md"

// words are those of the tables.
const words = `* *floor*: the least that a durable lock can do in the same database: two commits written by hand, by a caller who has the key to itself.
* *× floor*: how many times the floor's speed (above 1 is faster); *by p25*: of the quicker quarter of the cycles, which other work on the machine disturbs less; *÷ floor*: how many times its time.
* *one by one*: the library's own statements, for one lock at a time.
* *share max÷min*: the holds of the process that had the most, for one of that which had the fewest. Without any the latter counts as half of one.
* *hand-over*: from before the release in one process to after the acquire in another.
* *RTT*: the time of a round trip to the server.
* *void*: measured, but worth nothing, because leases were lost meanwhile.
`

// legend explains the numbers of the run, and the words of the tables.
func legend(f *result.File, explained string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "What each number measures, and the words of the tables ([more](%s)):\n\n", explained)
	for _, n := range number.Numbers {
		if len(Of(f, n.Name).Rows) > 0 {
			fmt.Fprintf(&b, "* [%s](%s#%s), %s: %s.\n", n.Name, explained, n.Anchor, n.Title, n.About)
		}
	}
	b.WriteString(words)
	return b.String()
}

// Run describes the run: machine, servers, what was left out.
func Run(f *result.File) string {
	m := f.Machine
	var b strings.Builder
	if f.Partial != "" {
		fmt.Fprintf(&b, "**This run is partial: %s. Numbers that are missing were not measured; the last one may have fewer rounds.**\n\n", f.Partial)
	}
	if busy := f.Machine.Busy(); busy != "" {
		fmt.Fprintf(&b, "**The machine was busy: %s. Times and ratios are those of a busy machine; a \"no\" below may be its fault.**\n\n", busy)
	}
	b.WriteString(head(f) + ".\n\n")
	fmt.Fprintf(&b, "* Machine: %s, %d cores, %.0f GB, %s, %s.\n", m.CPU, m.Cores, m.MemoryGB, m.System, m.Go)
	fmt.Fprintf(&b, "* Disk: an append of 512 bytes and its sync take %s ms (p50), %s ms (p99)", Number(m.FsyncP50), Number(m.FsyncP99))
	if m.SlowSync != "" {
		fmt.Fprintf(&b, "; syncs of the servers made %s slower by ROWLOCK_TEST_SYNC", m.SlowSync)
	}
	b.WriteString(".\n")
	fmt.Fprintf(&b, "* Load (1, 5, 15 minutes) before the run: %s; after it: %s.\n", m.LoadBefore, m.LoadAfter)
	for _, name := range slices.Sorted(maps.Keys(f.Later)) {
		later := f.Later[name]
		fmt.Fprintf(&b, "* %s is from a run of its own: %s, load %s before it.\n", name, head(later), later.Machine.LoadBefore)
	}
	b.WriteString("\n")
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

// head is the run in a line.
func head(f *result.File) string {
	return fmt.Sprintf("`%s`, %s, %.0f s, %s", f.Command, f.Started.Format("2006-01-02 15:04"), f.Seconds, rounds(f))
}

// rounds says what stands in a cell.
func rounds(f *result.File) string {
	if f.Rounds == 1 {
		return "one round of each comparison, so the numbers of another run may differ by far (where there are several values: their median, smallest–largest in brackets)"
	}
	return fmt.Sprintf("medians of %d rounds (smallest–largest in brackets)", f.Rounds)
}

// Targets is the table of wanted and measured, as Markdown.
func Targets(f *result.File) string { return TargetTable(f).Markdown() }

// TargetTable is the table of wanted and measured.
func TargetTable(f *result.File) Table {
	t := Table{Head: []string{"name", "server", "side", "case", "metric", "wanted", "measured", "reached"}}
	for _, o := range target.Judge(f) {
		reached := "yes"
		switch {
		case o.Void != "":
			reached = "**void**: " + o.Void
		case !o.Reached():
			reached = "**no**"
		}
		t.Rows = append(t.Rows, []string{o.Measurement.Number, o.Server, o.Side, o.Measurement.Case, o.Measurement.Metric, o.Wanted(), cell(&o.Measurement), reached})
	}
	return t
}

// Section is the table and the figures of one number; empty if it was not measured.
func Section(f *result.File, name string, figures []Figure, folder string) string {
	t := Of(f, name)
	if len(t.Rows) == 0 {
		return ""
	}
	return pictures(name, figures, folder) + t.Markdown()
}

// pictures are the figures of a number, each as a reader's page is: light or dark.
func pictures(name string, figures []Figure, folder string) string {
	var b strings.Builder
	for _, g := range figures {
		if g.Number == name {
			fmt.Fprintf(&b, "<picture><source media=\"(prefers-color-scheme: dark)\" srcset=\"%[1]s%[2]s-dark.svg\"><img alt=\"%[3]s\" src=\"%[1]s%[2]s-light.svg\"></picture>\n\n",
				folder, g.Name, html.EscapeString(g.Title))
		}
	}
	return b.String()
}
