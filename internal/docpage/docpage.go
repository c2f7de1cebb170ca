// Package docpage reads the documentation for the tests that keep it true. A code block that a test looks at has a mark
// in the line before it, which nobody sees in the rendered page:
//
//	<!-- sent: version acquire -->
//
// The word before the colon says what the test does with the block, the rest is its name.
package docpage

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// Block is a code block with a mark.
type Block struct {
	Name string
	Text string // between the fences
}

var marked = regexp.MustCompile("(?m)^<!-- ([a-z]+): (.*) -->\n(?:\n)?```[a-z]*\n((?s:.*?))^```$")

// Blocks returns the blocks of a page whose mark begins with word, in their order. A page without any, or with two of
// one name, ends the test.
func Blocks(t testing.TB, page, word string) []Block {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var blocks []Block
	seen := make(map[string]bool)
	for _, m := range marked.FindAllStringSubmatch(string(text), -1) {
		if m[1] != word {
			continue
		}
		if seen[m[2]] {
			t.Fatalf("%s has two blocks marked %q", page, m[1]+": "+m[2])
		}
		seen[m[2]] = true
		blocks = append(blocks, Block{Name: m[2], Text: m[3]})
	}
	if n := strings.Count(string(text), "<!-- "+word+": "); n != len(blocks) || n == 0 {
		t.Fatalf("%s: %d marks %q, %d of them before a code block", page, n, word, len(blocks))
	}
	return blocks
}

// One returns the text of the block with a name.
func One(t testing.TB, page, word, name string) string {
	t.Helper()
	for _, b := range Blocks(t, page, word) {
		if b.Name == name {
			return b.Text
		}
	}
	t.Fatalf("%s has no block marked %q", page, word+": "+name)
	return ""
}
