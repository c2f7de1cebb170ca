package rowlockcli

import "unicode/utf8"

// columns is how wide a key and an owner are in a table, at most.
const columns = 40

// shorten leaves out the middle of a text that is too wide: keys that begin alike often differ in their ends.
func shorten(text string) string {
	if utf8.RuneCountInString(text) <= columns {
		return text
	}
	runes := []rune(text)
	return string(runes[:columns/2]) + "…" + string(runes[len(runes)-columns/2+1:])
}

// meaning says what the states are of which the name does not.
var meaning = map[string]string{
	"kept":   "its holder has released it, but --min-hold (MinHold) keeps it from everybody until what is left is over",
	"pinned": "nobody holds it, but an open transaction of its last holder must end first (see docs/operations.md)",
}

// explain says on stderr what needs a word in the table that was written.
func (q *query) explain(seen map[string]bool, cut bool) {
	for _, state := range []string{"kept", "pinned"} {
		if seen[state] {
			q.say("%s: %s", state, meaning[state])
		}
	}
	if cut {
		q.say("…: -o names has long keys whole, -o json owners too")
	}
}
