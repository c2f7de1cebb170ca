package report

import (
	"fmt"
	"os"
	"strings"

	"github.com/rowlock/rowlock/bench/internal/number"
	"github.com/rowlock/rowlock/bench/internal/result"
)

// Docs writes the generated parts of a page: each stands between the lines
// <!-- bench: NAME --> and <!-- end -->, where NAME is run, numbers, disks, or the
// name of a number. The rest of the page is left as it is. After a run of some numbers
// (whole is false) so are run and numbers, and each of its parts says where it is from.
func Docs(f *result.File, page string, figures []Figure, whole bool) error {
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	parts := map[string]string{"run": Run(f), "numbers": Targets(f), "disks": ""}
	for _, n := range number.Numbers {
		parts[n.Name] = Section(f, n.Name, figures, "img/", ".svg")
		if !whole && parts[n.Name] != "" {
			parts[n.Name] = "From a run of its own: " + head(f) + ", load " + f.Machine.LoadBefore + " before it.\n\n" + parts[n.Name]
		}
	}
	if !whole {
		parts["run"], parts["numbers"] = "", ""
	}
	return rewrite(page, string(text), parts)
}

// DocsDisks writes the table of several runs into its part of a page.
func DocsDisks(t Table, page string) error {
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	parts := map[string]string{"run": "", "numbers": "", "disks": t.Markdown()}
	for _, n := range number.Numbers {
		parts[n.Name] = ""
	}
	return rewrite(page, string(text), parts)
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
			part = "\n" + part + "\n"
		}
		b.WriteString(text[:i] + begin + name + end + part + stop)
		text = after
	}
}
