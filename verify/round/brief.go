package round

import (
	"regexp"
	"strings"
)

// What differs in the texts of one error.
var differing = []struct {
	what *regexp.Regexp
	as   string
}{
	{regexp.MustCompile(`"[^"]*"`), "KEY"},
	{regexp.MustCompile(`\b[0-9a-f]{24,}\b`), "ID"},
	{regexp.MustCompile(`(127\.0\.0\.1|localhost):\d+`), "HOST"},
	{regexp.MustCompile(`HOST\[-?\d+\]`), "HOST"},
	{regexp.MustCompile(`HOST->HOST`), "HOST"},
	{regexp.MustCompile(`\d+(\.\d+)?(ns|µs|ms|s|m)\b`), "TIME"},
	{regexp.MustCompile(`\b\d{5,}\b`), "N"},
}

// brief is the text of an error without what differs each time.
func brief(text string) string {
	text, _, _ = strings.Cut(text, "\n")
	for _, d := range differing {
		text = d.what.ReplaceAllString(text, d.as)
	}
	if i := strings.Index(text, ", Topology: {"); i > 0 {
		text = text[:i]
	}
	if len(text) > 160 {
		text = text[:160] + "…"
	}
	return text
}
