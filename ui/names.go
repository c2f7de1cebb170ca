package ui

import (
	"html/template"
	"strings"
	"unicode/utf8"
)

const (
	// shortName is the length of a name, or of a part of one, that is not broken.
	shortName = 16

	// longWord is the length of a word that may be broken anywhere, because a telephone is not much wider.
	longWord = 18

	// betweenParts and betweenWords are the characters after which a name may go on in the next line. Its parts are broken
	// only if they are long.
	betweenParts = " /:|@,;"
	betweenWords = "-_.+"
)

// name is a key or an owner in HTML: it is broken between its parts, and nowhere else.
func name(s string) template.HTML {
	var b strings.Builder
	for i, part := range splitName(s) {
		if i > 0 {
			b.WriteString("<wbr>")
		}
		b.WriteString(template.HTMLEscapeString(part))
	}
	return template.HTML(b.String()) // its parts are escaped
}

// splitName splits a name where it may be broken.
func splitName(s string) (parts []string) {
	if utf8.RuneCountInString(s) <= shortName {
		return []string{s}
	}
	for _, part := range splitAfter(s, betweenParts) {
		if utf8.RuneCountInString(part) <= shortName {
			parts = append(parts, part)
		} else {
			parts = append(parts, splitAfter(part, betweenWords)...)
		}
	}
	return parts
}

func splitAfter(s, any string) (parts []string) {
	for s != "" {
		end := strings.IndexAny(s, any) + 1
		if end == 0 {
			end = len(s)
		}
		parts, s = append(parts, s[:end]), s[end:]
	}
	return parts
}

// long reports whether a name has a word that may be broken anywhere.
func long(s string) bool {
	for _, word := range splitName(s) {
		if utf8.RuneCountInString(word) > longWord {
			return true
		}
	}
	return false
}
