// Package misuse judges the messages that a user's mistakes get, for the tests of every store.
package misuse

import (
	"errors"
	"strings"
	"testing"
)

// A Case is a mistake and what it is answered.
type Case struct {
	mistake string
	err     error
	is      error // nil: any
	says    []string
}

// Answer is the answer to a mistake: an error that matches a sentinel (nil: any), and whose message must say these: what
// is wrong, and what to do.
func Answer(mistake string, err, is error, says ...string) Case { return Case{mistake, err, is, says} }

// Judge fails for each message that does not say what it should, that has the prefix of the library more than once, or
// that says something twice.
func Judge(t *testing.T, cases ...Case) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.mistake, func(t *testing.T) {
			if c.err == nil {
				t.Fatal("no error")
			}
			t.Log(c.err)
			if c.is != nil && !errors.Is(c.err, c.is) {
				t.Errorf("%v does not match %v", c.err, c.is)
			}
			for _, s := range c.says {
				if !strings.Contains(c.err.Error(), s) {
					t.Errorf("%v does not say %q", c.err, s)
				}
			}
			if twice := Repeats(c.err.Error()); twice != "" {
				t.Errorf("%v says twice: %s", c.err, twice)
			}
		})
	}
}

// Repeats is something that a message says twice: the library's prefix, or a part between colons. It is empty where
// there is nothing.
func Repeats(message string) string {
	if strings.Count(message, "rowlock:") > 1 {
		return "rowlock:"
	}
	seen := make(map[string]bool)
	for _, part := range strings.FieldsFunc(message, func(r rune) bool { return r == ':' || r == '\n' || r == ';' }) {
		part = strings.TrimSpace(part)
		if !strings.Contains(part, " ") { // a number, an operation of package net
			continue
		}
		if seen[part] {
			return part
		}
		seen[part] = true
	}
	return ""
}
