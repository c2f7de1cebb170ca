package input

import "testing"

func TestInput(t *testing.T) {
	for _, c := range []struct{ value, trimmed, cut, fault string }{
		{"app", "app", "", ""},
		{"", "", "", ""},
		{"app\n", "app", "a newline at its end", "ends with a newline"},
		{"app\r\n", "app", "a newline at its end", "ends with a newline"},
		{"\ufeffapp\r", "app", "a byte order mark at its beginning and a carriage return at its end", "begins with a byte order mark"},
		{"\t app", "app", "a tab at its beginning", "begins with a tab"},
		{"app\x00", "app", "a NUL byte at its end", "ends with a NUL byte"},
		{"app\u00a0", "app", "the character U+00A0 at its end", "ends with the character U+00A0"},
		{" \n", "", "nothing but white space", "begins with a space"},
		{"two words", "two words", "", ""},
		{"a\tb", "a\tb", "", "has a tab in it"},
		{"a\nb\n", "a\nb", "a newline at its end", "ends with a newline"},
		{"a\x1bb", "a\x1bb", "", "has the character U+001B in it"},
		{"a\u200bb", "a\u200bb", "", "has the character U+200B in it"},
		{"caf\xe9", "caf\xe9", "", ""},
		{"\x85", "\x85", "", ""}, // a byte, not U+0085
		{"👨‍👩‍👧", "👨‍👩‍👧", "", ""},
	} {
		trimmed, cut := Trim(c.value)
		if fault := Fault(c.value); trimmed != c.trimmed || cut != c.cut || fault != c.fault {
			t.Errorf("%q: %q, %q, %q, want %q, %q, %q", c.value, trimmed, cut, fault, c.trimmed, c.cut, c.fault)
		}
		if again, cut := Trim(trimmed); again != trimmed || cut != "" {
			t.Errorf("%q: what was cut is cut again: %q, %q", c.value, again, cut)
		}
	}
}
