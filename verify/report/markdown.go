package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/rowlock/rowlock/verify/round"
)

// Markdown is the report as a page.
func (p *Report) Markdown() string { return p.Summary() + "\n" + p.Faults() }

// Summary is a line for each strategy on each server.
func (p *Report) Summary() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var b strings.Builder
	fmt.Fprintf(&b, "`%s`, %s, %v.\n", p.command, p.started.Format("2006-01-02 15:04"), time.Since(p.started).Round(time.Second))
	for _, text := range p.failed {
		fmt.Fprintf(&b, "* **Not run or not judged**: %s\n", strings.ReplaceAll(text, "\n", " "))
	}
	for _, kind := range slices.Sorted(maps.Keys(p.anew)) {
		fmt.Fprintf(&b, "* The %s server was started anew %d times, because a fault could not be undone.\n", kind, p.anew[kind])
	}
	b.WriteString("\n| server | strategy | rounds | operations | grants | operations/s | faults injected | violations |\n|---|---|---|---|---|---|---|---|\n")
	var total round.Count
	faults := 0
	for _, s := range p.servers {
		injected := 0
		for _, f := range s.faults {
			injected += f.Injected
		}
		faults += injected
		for _, space := range slices.Sorted(maps.Keys(s.spaces)) {
			c := s.spaces[space]
			total.Operations += c.Operations
			total.Grants += c.Grants
			total.Violations += c.Violations
			fmt.Fprintf(&b, "| %s | `%s` | %d | %s | %s | %.0f | %s | %d |\n", s.name, space, s.rounds,
				thousands(c.Operations), thousands(c.Grants), float64(c.Operations)/max(s.seconds, 1), thousands(injected), c.Violations)
		}
	}
	fmt.Fprintf(&b, "| all | | | %s | %s | | %s | %d |\n\n", thousands(total.Operations), thousands(total.Grants), thousands(faults), total.Violations)
	b.WriteString("The strategies of a server share its faults.\n")
	return b.String()
}

// Faults is a line for each fault on each server: the time without service, and what
// callers saw.
func (p *Report) Faults() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var b strings.Builder
	b.WriteString("Without service: the longest time in which nobody on the server was granted anything, from the begin of a fault on. " +
		"It and what callers saw are of those that had no other fault beside them.\n\n")
	b.WriteString("| fault | server | injected | alone | without service p50 | max | rounds with it that were violated | what callers saw most |\n|---|---|---|---|---|---|---|---|\n")
	for _, name := range p.names() {
		for _, s := range p.servers {
			f := s.faults[name]
			if f == nil {
				continue
			}
			p50, longest := "–", "–"
			if n := len(f.Gaps); n > 0 {
				slices.Sort(f.Gaps)
				p50, longest = short(f.Gaps[n/2]), short(f.Gaps[n-1])
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s | %s | %d | %s |\n", name, s.kind, thousands(f.Injected), thousands(len(f.Gaps)),
				p50, longest, s.violated[name], seen(f.Errors))
		}
	}
	return b.String()
}

// names are those of all faults.
func (p *Report) names() []string {
	all := map[string]bool{}
	for _, s := range p.servers {
		for name := range s.faults {
			all[name] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// seen are the commonest errors.
func seen(errors map[string]int) string {
	texts := slices.Collect(maps.Keys(errors))
	slices.SortFunc(texts, func(a, b string) int { return cmp.Or(errors[b]-errors[a], strings.Compare(a, b)) })
	var list []string
	for _, text := range texts[:min(3, len(texts))] {
		list = append(list, fmt.Sprintf("%s (%s)", strings.NewReplacer("|", "\\|", "<", "&lt;").Replace(text), thousands(errors[text])))
	}
	return strings.Join(list, "<br>")
}

func short(d time.Duration) string {
	if d < time.Second {
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}

// thousands writes 31204 as 31 204.
func thousands(n int) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + " " + s[i:]
	}
	return s
}
