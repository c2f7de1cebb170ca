package doctor

import (
	"fmt"
	"strings"
)

// Markdown is a table as a part of docs/doctor.md: a section for each ID.
func Markdown(table []Entry) string {
	var b strings.Builder
	for _, e := range table {
		fmt.Fprintf(&b, "### %s\n\n**%s.** Looked at: %s.", e.ID, capital(e.Title), e.Look)
		if e.Needs != "" {
			fmt.Fprintf(&b, " Needs: %s.", e.Needs)
		}
		b.WriteString("\n\n| verdict | seen | what it means, and what to do | mended by |\n|---|---|---|---|\n")
		for _, v := range e.Verdicts {
			command := v.Command
			if command != "" {
				command = "`` " + command + " ``"
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", v.Severity, v.When, v.Advice, command)
		}
		b.WriteString("\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func capital(s string) string { return strings.ToUpper(s[:1]) + s[1:] }
