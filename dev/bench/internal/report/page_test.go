package report

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/dev/bench/internal/lab"
	"github.com/rowlock/rowlock/dev/bench/internal/number"
	"github.com/rowlock/rowlock/dev/bench/internal/result"
	"github.com/rowlock/rowlock/dev/bench/internal/side"
)

// TestPage: what a reader must know before the tables is said at the top.
func TestPage(t *testing.T) {
	quiet := result.Machine{Cores: 2, LoadBefore: "1.9 2 3", LoadMost: 2}
	for _, c := range []struct {
		name        string
		f           *result.File
		has, hasNot []string
	}{
		{name: "one round", f: &result.File{Rounds: 1, Machine: quiet}, has: []string{"one round of each"}, hasNot: []string{"medians of", "busy", "partial"}},
		{name: "three rounds", f: &result.File{Rounds: 3, Machine: quiet}, has: []string{"medians of 3 rounds (smallest–largest in brackets)"}, hasNot: []string{"one round"}},
		{name: "busy before", f: &result.File{Rounds: 3, Machine: result.Machine{Cores: 2, LoadBefore: "107.3 90 20"}}, has: []string{"**The machine was busy: load 107 on 2 cores before the run"}},
		{name: "busy meanwhile", f: &result.File{Rounds: 3, Machine: result.Machine{Cores: 2, LoadBefore: "0.1 0 0", LoadMost: 12.5}}, has: []string{"**The machine was busy: load up to 12.5 on 2 cores during the run"}},
		{name: "partial", f: &result.File{Rounds: 3, Partial: "it was interrupted in N4"}, has: []string{"**This run is partial: it was interrupted in N4."}},
	} {
		t.Run(c.name, func(t *testing.T) {
			top, _, _ := strings.Cut(Page(c.f, nil, Explained), "## The numbers")
			for _, text := range c.has {
				if !strings.Contains(top, text) {
					t.Errorf("the top does not say %q:\n%s", text, top)
				}
			}
			for _, text := range c.hasNot {
				if strings.Contains(top, text) {
					t.Errorf("the top says %q:\n%s", text, top)
				}
			}
		})
	}
}

// TestVoidCells: a void value is shown as that, in both tables, with the reason.
func TestVoidCells(t *testing.T) {
	f := &result.File{Rounds: 1}
	at := result.At{Number: "N5", Server: lab.MySQL, Side: side.Version, Case: "2000 leases"}
	f.Add(at, "connections used", 0)
	f.Void(at, "connections used", "2000 of 2000 leases were lost")
	page := Page(f, nil, Explained)
	if !strings.Contains(page, "| connections used | ≤ 2 | void | **void**: 2000 of 2000 leases were lost |") || strings.Count(page, "| void |") != 2 {
		t.Errorf("the page does not show it:\n%s", page)
	}
}

// TestAnchors: every number is explained in a line, with a link to its part of the
// page, and the page has a part of its own for it.
func TestAnchors(t *testing.T) {
	text, err := os.ReadFile("../../../../docs/performance.md")
	if err != nil {
		t.Fatal(err)
	}
	var anchors []string
	for line := range strings.Lines(string(text)) {
		if title, ok := strings.CutPrefix(line, "## "); ok {
			slug := strings.Map(func(r rune) rune {
				switch {
				case r == ' ':
					return '-'
				case strings.ContainsRune(":,'\n", r):
					return -1
				}
				return r
			}, strings.ToLower(title))
			anchors = append(anchors, slug)
		}
	}
	f := &result.File{}
	for _, n := range number.Numbers {
		f.Add(result.At{Number: n.Name, Server: lab.MySQL}, "ms", 1)
	}
	page := Page(f, nil, Explained)
	for _, n := range number.Numbers {
		if !slices.Contains(anchors, n.Anchor) {
			t.Errorf("docs/performance.md has no part %q for %s", n.Anchor, n.Name)
		}
		if n.About == "" || !strings.Contains(page, "* ["+n.Name+"]("+Explained+"#"+n.Anchor+"), ") {
			t.Errorf("the report does not explain %s", n.Name)
		}
		if !strings.Contains(string(text), "<!-- bench: "+n.Name+" -->") {
			t.Errorf("docs/performance.md has no place for the table of %s", n.Name)
		}
	}
}
