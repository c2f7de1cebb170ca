// Package input is the way in for values that come from outside: options, variables, lines of files, addresses. White space
// and control characters at their ends are nobody's intention: the newline of a Kubernetes secret that was made of a file,
// the byte order mark of an editor. Within a value they are a mistake that must be named, because nobody sees them.
package input

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Trim cuts white space and control characters off the ends of a value. cut says what it was, "a newline at its end", and is
// empty if there was none. Bytes that are no UTF-8 stay.
func Trim(value string) (trimmed, cut string) {
	trimmed = strings.TrimFunc(value, blank)
	switch {
	case trimmed == value:
		return value, ""
	case trimmed == "":
		return "", "nothing but white space"
	}
	var parts []string
	if first, _ := utf8.DecodeRuneInString(value); blank(first) {
		parts = append(parts, name(first)+" at its beginning")
	}
	if last, _ := utf8.DecodeLastRuneInString(value); blank(last) {
		parts = append(parts, name(last)+" at its end")
	}
	return trimmed, strings.Join(parts, " and ")
}

// Control names the first control character of a value, "a tab"; empty if it has none. The value itself is not told: it may be
// a password.
func Control(value string) string {
	if i := strings.IndexFunc(value, control); i >= 0 {
		r, _ := utf8.DecodeRuneInString(value[i:])
		return name(r)
	}
	return ""
}

// Fault says what makes a value a mistake that nobody sees, "ends with a newline"; empty if nothing does.
func Fault(value string) string {
	first, _ := utf8.DecodeRuneInString(value)
	last, _ := utf8.DecodeLastRuneInString(value)
	switch {
	case value == "":
		return ""
	case blank(first):
		return "begins with " + name(first)
	case blank(last):
		return "ends with " + name(last)
	}
	if c := Control(value); c != "" {
		return "has " + c + " in it"
	}
	return ""
}

func blank(r rune) bool { return unicode.IsSpace(r) || control(r) }

// control is also for what has no width: the byte order mark, and spaces of none.
func control(r rune) bool {
	return unicode.IsControl(r) || r == '\ufeff' || r == '\u200b' || r == '\u2060' || r == '\u2028' || r == '\u2029'
}

func name(r rune) string {
	switch r {
	case '\n':
		return "a newline"
	case '\r':
		return "a carriage return"
	case '\t':
		return "a tab"
	case ' ':
		return "a space"
	case 0:
		return "a NUL byte"
	case '\ufeff':
		return "a byte order mark"
	}
	return fmt.Sprintf("the character U+%04X", r)
}
