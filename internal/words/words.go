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
			b.WriteString(hex(s[:n]))
		} else {
			b.WriteRune(r)
		}
		s = s[n:]
	}
	return b.String()
}

// MostText is the most bytes that Text gives.
const MostText = 1024

// Text is bytes as text, for what takes UTF-8 and nothing else: labels, attributes, spans, exemplars. Keys, owners, prefixes and names
// may be any bytes. What is no UTF-8, and control characters, are \xNN there; the end of what is too long is "…". Text that is
// short and has none of it stays as it is.
func Text(s string) string {
	plain := len(s) <= MostText && utf8.ValidString(s)
	for i := 0; plain && i < len(s); i++ {
		plain = s[i] >= ' ' && s[i] != 0x7f
	}
	if plain {
		return s
	}
	const cut = "…"
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		part := s[:n]
		if r == utf8.RuneError && n == 1 || unicode.IsControl(r) {
			part = hex(part)
		}
		if b.Len()+len(part) > MostText-len(cut) {
			b.WriteString(cut)
			break
		}
		b.WriteString(part)
		s = s[n:]
	}
	return b.String()
}

// hex is each byte as \xNN.
func hex(s string) string {
	var b strings.Builder
	for _, c := range []byte(s) {
		b.WriteString(`\x` + strconv.FormatUint(uint64(c)+0x100, 16)[1:])
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
