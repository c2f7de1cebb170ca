package words

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestText(t *testing.T) {
	for s, want := range map[string]string{
		"":                          "",
		"order/1 für Sie":           "order/1 für Sie",
		"caf\xe9/2":                 `caf\xe9/2`,
		"a\x00b\nc\u0085d":          `a\x00b\x0ac\xc2\x85d`,
		strings.Repeat("é", 512):    strings.Repeat("é", 512),
		strings.Repeat("é", 513):    strings.Repeat("é", 510) + "…",
		strings.Repeat("\xff", 300): strings.Repeat(`\xff`, 255) + "…",
	} {
		if got := Text(s); got != want {
			t.Errorf("%q: %q, want %q", s, got, want)
		}
	}
}

func FuzzText(f *testing.F) {
	f.Add("caf\xe9/2")
	f.Fuzz(func(t *testing.T, s string) {
		text := Text(s)
		if !utf8.ValidString(text) || len(text) > MostText || strings.ContainsFunc(text, unicode.IsControl) {
			t.Errorf("%q: %q", s, text)
		}
		if Text(text) != text {
			t.Errorf("%q: of text %q", s, Text(text))
		}
	})
}
