// Package words writes values for people: what the terminal and the page show of keys, owners and numbers.
package words

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Printable shows bytes that a terminal or a page does not as \xNN, and so keeps a key from being commands for a
// terminal. An empty text is empty instead.
func Printable(s, empty string) string {
	if s == "" {
		return empty
	}
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		if r == utf8.RuneError && n == 1 || !unicode.IsPrint(r) || r == '\\' {
			for _, c := range []byte(s[:n]) {
				b.WriteString(`\x` + strconv.FormatUint(uint64(c)+0x100, 16)[1:])
			}
		} else {
			b.WriteRune(r)
		}
		s = s[n:]
	}
	return b.String()
}

// Count is a number of things: "1 reader", "2 readers".
func Count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
