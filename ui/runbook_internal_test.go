package ui

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestRunbookParts: each part of the runbook to which the page links is there.
func TestRunbookParts(t *testing.T) {
	text, err := os.ReadFile("../docs/runbook.md")
	if err != nil {
		t.Fatal(err)
	}
	there := make(map[string]bool)
	for _, m := range regexp.MustCompile(`(?m)^## (.*)$`).FindAllStringSubmatch(string(text), -1) {
		there[strings.ReplaceAll(strings.ToLower(m[1]), " ", "-")] = true
	}
	links := 0
	for _, need := range []need{notRenewed, isPinned, waitedFor, noNeed} {
		for _, state := range []string{"free", "held", "kept", "pinned"} {
			for _, life := range []life{noLife, unclear, lives, silent} {
				a := appearance{facts: facts{need: need, state: state, life: life}}
				i := a.item(time.Now())
				if i.Do.Text == "" {
					t.Errorf("nothing is said of a key that is %s", state)
				}
				if i.Do.Part == "" {
					continue
				}
				links++
				if !there[i.Do.Part] {
					t.Errorf("the runbook has no part %s", i.Do.Part)
				}
			}
		}
	}
	if links == 0 {
		t.Error("the page has no link to the runbook")
	}
}
