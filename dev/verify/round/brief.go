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
	{regexp.MustCompile(`\b\d+ keys`), "N keys"},
	{regexp.MustCompile("rowlock_(unique|version|session_row|session)"), "TABLE"},
	{regexp.MustCompile(`: context (deadline exceeded|canceled): (my|mon)`), ": ${2}"}, // the cause follows
	{regexp.MustCompile(`,? current topology: .*`), ""},
}

// ownDoing is a caller who had no patience: no fault needs to be there for that.
var ownDoing = regexp.MustCompile(`^(acquire KEY: )?context (deadline exceeded|canceled)$`)

// brief is the text of an error without what differs each time; empty if it says nothing.
func brief(text string) string {
	text, _, _ = strings.Cut(text, "\n")
	for _, d := range differing {
		text = d.what.ReplaceAllString(text, d.as)
	}
	if ownDoing.MatchString(text) {
		return ""
	}
	if len(text) > 120 {
		text = text[:120] + "…"
	}
	return text
}
