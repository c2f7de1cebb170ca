package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"
)

// table writes the results as docs/quality/mutations.md has them.
func table(w io.Writer, results []result) {
	fmt.Fprint(w, "| mutation | what it does | breaks | caught by | s |\n|---|---|---|---|---|\n")
	for _, r := range results {
		by := "`" + r.by + "`"
		switch {
		case r.err != nil:
			by = "**" + r.err.Error() + "**"
		case r.checked:
			by = "not run"
		}
		fmt.Fprintf(w, "| `%s` | %s | %s | %s | %.0f |\n", r.name, r.title, strings.Join(r.breaks, ", "), by, r.took.Seconds())
	}
}

// line is one result as it comes.
func (r result) String() string {
	switch {
	case r.err != nil:
		return fmt.Sprintf("%s: FAILED: %v (%.0f s)", r.name, r.err, r.took.Seconds())
	case r.checked:
		return fmt.Sprintf("%s: applies and compiles (%.0f s)", r.name, r.took.Seconds())
	}
	return fmt.Sprintf("%s: caught by %s (%.0f s): %s", r.name, r.by, r.took.Seconds(), cmp.Or(cut(r.line), "(it says nothing)"))
}

// cut keeps a line short.
func cut(line string) string {
	const most = 200
	if len(line) <= most {
		return line
	}
	return strings.ToValidUTF8(line[:most], "") + "…"
}
