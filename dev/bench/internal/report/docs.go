package report

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/rowlock/rowlock/dev/bench/internal/number"
	"github.com/rowlock/rowlock/dev/bench/internal/result"
)

// Docs writes the generated parts of a page: each stands between the lines
// <!-- bench: NAME --> and <!-- end -->, where NAME is run, summary, missed, or the name
// of a number. The rest of the page is left as it is. The page has figures and what
// a reader compares; every table goes to a file of its number in the folder results.
// After a run of some numbers (whole is false) run, summary and missed stay as they are.
func Docs(f *result.File, page, results string, figures []Figure, whole bool) error {
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(results, 0o755); err != nil {
		return err
	}
	parts := map[string]string{"run": brieflyRun(f), "summary": pictures(summary, figures, "img/") + SummaryTable(f).Markdown() + "\n" + summaryWords, "missed": MissedTable(f).Markdown()}
	for _, n := range number.Numbers {
		t := Of(f, n.Name)
		parts[n.Name] = ""
		if len(t.Rows) == 0 {
			continue
		}
		name := n.Name + ".md"
		parts[n.Name] = pictures(n.Name, figures, "img/") + fmt.Sprintf("[All %d lines](../dev/bench/results/%s).\n", len(t.Rows), name)
		raw := fmt.Sprintf("# %s: %s\n\n%s.\n\n%s\n%s", n.Name, n.Title, n.About, origin(f.Of(n.Name)), t.Markdown())
		if err := os.WriteFile(filepath.Join(results, name), []byte(raw), 0o644); err != nil {
			return err
		}
	}
	if !whole {
		parts["run"], parts["summary"], parts["missed"] = "", "", ""
	} else {
		for name, raw := range map[string]string{
			"numbers.md": "# Every number with its bound\n\n" + origin(f) + "\n" + Targets(f),
			"run.md":     "# The run\n\n" + Run(f),
		} {
			if err := os.WriteFile(filepath.Join(results, name), []byte(raw), 0o644); err != nil {
				return err
			}
		}
	}
	return rewrite(page, string(text), parts)
}

// origin says where a file of results is from.
func origin(f *result.File) string {
	m := f.Machine
	return fmt.Sprintf("From %s; load %s before it, up to %.3g in it; %s, %d cores, a sync in %s ms. [What the words mean](../../docs/performance.md).\n",
		head(f), m.LoadBefore, m.LoadMost, m.CPU, m.Cores, Number(m.FsyncP50))
}

// DocsDisks writes the table of several runs into its file of the folder results.
func DocsDisks(t Table, results string) error {
	raw := "# N1 and N2 on slower disks\n\nIn times the floor on the same disk: [how](../../docs/performance.md#the-same-on-slower-disks).\n\n" + t.Markdown()
	return os.WriteFile(filepath.Join(results, "disks.md"), []byte(raw), 0o644)
}

// brieflyRun is the run in a few lines; run.md has the rest.
func brieflyRun(f *result.File) string {
	var b strings.Builder
	if busy := f.Machine.Busy(); busy != "" {
		fmt.Fprintf(&b, "**The machine was busy: %s. Times and ratios are those of a busy machine.**\n\n", busy)
	}
	m := f.Machine
	fmt.Fprintf(&b, "%s. %s, %d cores, %.0f GB, %s, %s; an append of 512 bytes and its sync take %s ms (p50), %s ms (p99); load %s before it.\n",
		head(f), m.CPU, m.Cores, m.MemoryGB, m.System, m.Go, Number(m.FsyncP50), Number(m.FsyncP99), m.LoadBefore)
	for _, name := range slices.Sorted(maps.Keys(f.Later)) {
		later := f.Later[name]
		fmt.Fprintf(&b, "%s is from a run of its own: %s, load %s before it.\n", name, head(later), later.Machine.LoadBefore)
	}
	fmt.Fprintf(&b, "[Servers, their durability settings, what could not be measured](../dev/bench/results/run.md).\n")
	return b.String()
}

// DocsFigures writes the figures into a page, each into the part of its number.
func DocsFigures(page string, figures []Figure) error {
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	for _, g := range figures {
		begin := regexp.MustCompile(`(?m)^<!-- bench: ` + g.Number + ` -->\n(<picture>.*\n\n)*`)
		if !begin.Match(text) {
			return fmt.Errorf("%s: no part %q", page, g.Number)
		}
		text = begin.ReplaceAllLiteral(text, []byte("<!-- bench: "+g.Number+" -->\n"+pictures(g.Number, figures, "img/")))
	}
	return os.WriteFile(page, text, 0o644)
}

func rewrite(page, text string, parts map[string]string) error {
	out, err := replace(text, parts)
	if err != nil {
		return fmt.Errorf("%s: %w", page, err)
	}
	return os.WriteFile(page, []byte(out), 0o644)
}

// replace puts the parts between their markers. A part without text, of what was not
// measured, keeps what is there.
func replace(text string, parts map[string]string) (string, error) {
	const begin, end, stop = "<!-- bench: ", " -->\n", "<!-- end -->"
	var b strings.Builder
	for {
		i := strings.Index(text, begin)
		if i < 0 {
			b.WriteString(text)
			return b.String(), nil
		}
		name, rest, found := strings.Cut(text[i+len(begin):], end)
		if !found {
			return "", fmt.Errorf("a marker does not end: %.40s", text[i:])
		}
		old, after, found := strings.Cut(rest, stop)
		if !found {
			return "", fmt.Errorf("no %s after the marker of %s", stop, name)
		}
		part, known := parts[name]
		if !known {
			return "", fmt.Errorf("no part %q", name)
		}
		if part == "" {
			part = old
		} else {
			part = strings.TrimRight(part, "\n") + "\n"
		}
		b.WriteString(text[:i] + begin + name + end + part + stop)
		text = after
	}
}
