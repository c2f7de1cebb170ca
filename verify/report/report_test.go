package report

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/rowlock/rowlock/testenv"
	"github.com/rowlock/rowlock/verify/check"
	"github.com/rowlock/rowlock/verify/round"
)

// TestMarkdown: rounds are added up, and nothing that went wrong is left out.
func TestMarkdown(t *testing.T) {
	p := New("verify run")
	for i := range 2 {
		r := round.Result{
			Kind: testenv.MySQL, Seconds: 10,
			Spaces: map[string]round.Count{"version": {Operations: 1000, Grants: 400, Violations: i}},
			Faults: map[string]*round.FaultStats{"cut": {Injected: 2, Gaps: []time.Duration{time.Duration(i+1) * time.Second},
				Errors: map[string]int{"cut | off": 3}}},
		}
		if i > 0 {
			r.Violations = []check.Violation{{}}
		}
		p.Add("MySQL 9.7", r)
	}
	p.Fail(testenv.Mongo, errors.New("no\nanswer"))
	p.Anew(testenv.Mongo)
	text := p.Markdown()
	for _, want := range []string{
		"| MySQL 9.7 | `version` | 2 | 2 000 | 800 | 100 | 4 | 1 |",
		"| `cut` | mysql | 4 | 2 | 2.0 s | 2.0 s | 1 | cut \\| off (6) |",
		"mongo: no answer", "mongo server was started anew 1 times",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in:\n%s", want, text)
		}
	}
	if p.Violations() != 1 || p.Failed() != 1 {
		t.Errorf("%d violations, %d failed", p.Violations(), p.Failed())
	}
}
