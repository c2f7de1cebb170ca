package report

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/rowlock/rowlock/dev/testenv"
	"github.com/rowlock/rowlock/dev/verify/check"
	"github.com/rowlock/rowlock/dev/verify/round"
)

// TestMarkdown: rounds are added up, and nothing that went wrong is left out.
func TestMarkdown(t *testing.T) {
	p := New("verify run")
	for i := range 2 {
		r := round.Result{
			Kind: testenv.MySQL, Seconds: 10,
			Spaces: map[string]round.Count{"version": {Operations: 1000, Answered: 900, Grants: 400, Violations: i}},
			Faults: map[string]*round.FaultStats{"cut": {Injected: 2, Gaps: []time.Duration{time.Duration(i+1) * time.Second},
				Errors: map[string]int{"cut | off": 3}}},
			NotRun: []string{"disk-full"},
		}
		if i > 0 {
			r.Seed, r.Violations = 0x2a, []check.Violation{{Promise: "P1", Checker: "lock", Space: "version", Key: "k", Text: "two holders"}}
		}
		p.Add("MySQL 9.7", r)
	}
	p.Fail(testenv.Mongo, errors.New("no\nanswer"))
	p.Anew(testenv.Mongo)
	text := p.Markdown()
	for _, want := range []string{
		"| MySQL 9.7 | `version` | 2 | 2 000 | 1 800 | 800 | 100 | 4 | 1 |", "**Faults not run** on mysql, because this machine or build does not have what they need: `disk-full`.",
		"| `cut` | mysql | 4 | 2 | 2.0 s | 2.0 s | 1 | cut \\| off (6) |",
		"mongo: no answer", "mongo server was started anew 1 times",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in:\n%s", want, text)
		}
	}
	if p.Failovers() != "" {
		t.Error("failovers of a single server")
	}
	if found := strings.Join(p.Found(), "\n"); found != `mysql, seed 0x2a: BREACH P1: lock, space version, key "k": two holders` {
		t.Errorf("found: %s", found)
	}
	if p.Violations() != 1 || len(p.Failed()) != 1 {
		t.Errorf("%d violations, %d failed", p.Violations(), len(p.Failed()))
	}
}

// TestFailovers: what a strategy took beyond the database is of the same fault, not of the longest of each.
func TestFailovers(t *testing.T) {
	p := New("verify run")
	s := func(seconds ...int) (all []time.Duration) {
		for _, n := range seconds {
			all = append(all, time.Duration(n)*time.Second)
		}
		return all
	}
	p.Add("MongoDB", round.Result{Kind: testenv.Mongo3, Faults: map[string]*round.FaultStats{
		"primary-killed": {Injected: 3, Gaps: s(9, 2, 5), Database: s(9, 1, 3), Of: map[string][]time.Duration{"mongo": s(10, 2, 1)},
			Slowest: map[string][]time.Duration{"mongo": s(10, 5, 3)}, Held: 30, Lost: 4, Early: 1},
	}})
	const want = "| `primary-killed` | mongo3 | 3 | 3.0 s | 9.0 s | `mongo` 2.0 s, 10.0 s; 1.0 s, 1.0 s; 1.0 s, 4.0 s | 30 | 4 | 1 |"
	if text := p.Failovers(); !strings.Contains(text, want) {
		t.Errorf("%q is missing in:\n%s", want, text)
	}
}
