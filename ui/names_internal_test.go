package ui

import (
	"strings"
	"testing"
)

// TestNames: a name is broken between its parts, a long part between its words, and nowhere else; all of it is there.
func TestNames(t *testing.T) {
	for s, want := range map[string]string{
		"":                                   "",
		"import/customers":                   "import/customers",
		"invoices/2026-11-27":                "invoices/|2026-11-27",
		"billing-7c9f-prod-eu-1":             "billing-|7c9f-|prod-|eu-|1",
		"shop:import/customers-of-the-north": "shop:|import/|customers-|of-|the-|north",
		"web-1 and 2 others":                 "web-1 |and |2 |others",
		"<script>alert(1)</script>":          "&lt;script&gt;alert(1)&lt;/|script&gt;",
	} {
		if got := strings.ReplaceAll(string(name(s)), "<wbr>", "|"); got != want {
			t.Errorf("%q is broken as %q, want %q", s, got, want)
		}
	}
	for s, want := range map[string]bool{"import/customers-of-the-north": false, "aaaaaaaaaaaaaaaaaa": false, "aaaaaaaaaaaaaaaaaaa": true, "b/aaaaaaaaaaaaaaaaaaaaa": true} {
		if long(s) != want {
			t.Errorf("%q is long: %v, want %v", s, !want, want)
		}
	}
}
