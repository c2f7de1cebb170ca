package conn

import (
	"os"
	"strings"
	"testing"
)

// TestSettingsAreDocumented: docs/operations.md names each.
func TestSettingsAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "### What a session may bring along")
	section, _, _ = strings.Cut(section, "\n## ")
	for _, s := range list {
		if !strings.Contains(section, "`"+s.name+"`") {
			t.Errorf("docs/operations.md does not name %s", s.name)
		}
		if s.why == "" {
			t.Errorf("%s has no reason", s.name)
		}
	}
}

// TestWrongIn: what differs is named, for the server that answered.
func TestWrongIn(t *testing.T) {
	of := []setting{{name: "a", to: "1"}, {name: "b", to: "0", on: onlyMySQL}, {name: "c", to: "OFF", on: onlyMariaDB}, {name: "d", to: "DEFAULT", look: "d()"}}
	for answer, want := range map[string]string{
		"1|1|mysql|0":    "",
		"ON|1|mariadb|0": "",
		"0|1|mysql|7":    "a is 0, b is 7",
		"1|0|mariadb|ON": "d is not DEFAULT, c is ON",
		"1|1":            "",
	} {
		if got := wrongIn(of, answer); got != want {
			t.Errorf("%s: %q, want %q", answer, got, want)
		}
	}
}
