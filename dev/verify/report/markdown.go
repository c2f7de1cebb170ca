package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/rowlock/rowlock/dev/testenv"
	"github.com/rowlock/rowlock/dev/verify/round"
)

// Markdown is the report as a page.
func (p *Report) Markdown() string {
	return p.Summary() + "\n" + p.Faults() + "\n" + p.Failovers()
}

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
	for _, s := range p.servers {
		if len(s.notRun) > 0 {
			fmt.Fprintf(&b, "* **Faults not run** on %s, because this machine or build does not have what they need: `%s`.\n", s.kind,
				strings.Join(slices.Sorted(maps.Keys(s.notRun)), "`, `"))
		}
	}
	b.WriteString("\n| server | strategy | rounds | operations | answered by a server | grants | operations/s | faults injected | violations |\n|---|---|---|---|---|---|---|---|---|\n")
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
			total.Answered += c.Answered
			total.Grants += c.Grants
			total.Violations += c.Violations
			fmt.Fprintf(&b, "| %s | `%s` | %d | %s | %s | %s | %.0f | %s | %d |\n", s.name, space, s.rounds,
				thousands(c.Operations), thousands(c.Answered), thousands(c.Grants), float64(c.Operations)/max(s.seconds, 1), thousands(injected), c.Violations)
		}
	}
	fmt.Fprintf(&b, "| all | | | %s | %s | %s | | %s | %d |\n\n", thousands(total.Operations), thousands(total.Answered), thousands(total.Grants), thousands(faults), total.Violations)
	b.WriteString("The strategies of a server share its faults. Answered by a server: without what failed or is unknown, and without leases that a client " +
		"handed off or shared in memory.\n")
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
			p50, longest := middle(f.Gaps)
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s | %s | %d | %s |\n", name, s.kind, thousands(f.Injected), thousands(len(f.Gaps)),
				p50, longest, s.violated[name], seen(f.Errors))
		}
	}
	return b.String()
}

// Failovers is a line for each fault and strategy on servers that replicate: the time in which the database itself took no
// write, beside the time in which nobody was granted anything.
func (p *Report) Failovers() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var b strings.Builder
	for _, name := range p.names() {
		for _, s := range p.servers {
			f := s.faults[name]
			if f == nil || len(f.Gaps) == 0 || !s.kind.Clustered() && s.kind != testenv.Mongo3 || !strings.HasPrefix(name, "primary-") &&
				!strings.HasPrefix(name, "successor-") && !strings.HasPrefix(name, "secondary-") && !strings.HasPrefix(name, "replicas-") {
				continue
			}
			if b.Len() == 0 {
				b.WriteString("Failovers that had no other fault beside them: the longest time from the begin of the fault on in which the database committed no " +
					"write of one row on a new connection, and in which a strategy granted nothing, and by how much that was longer; the same of the program " +
					"that waited longest each time; the leases that were " +
					"held when it began, those of them that were lost, all with the signal, and of these those that were still trusted.\n\n" +
					"| fault | server | n | database p50 | max | strategy: p50, max; beyond the database's; the slowest program's beyond | leases held | lost | while trusted |\n|---|---|---|---|---|---|---|---|---|\n")
			}
			p50, longest := middle(f.Database)
			var spaces []string
			for _, space := range slices.Sorted(maps.Keys(f.Of)) {
				m, l := middle(f.Of[space])
				more, most := middle(beyond(f.Of[space], f.Database))
				last, latest := middle(beyond(f.Slowest[space], f.Database))
				spaces = append(spaces, fmt.Sprintf("`%s` %s, %s; %s, %s; %s, %s", space, m, l, more, most, last, latest))
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s | %s | %s | %s | %s |\n", name, s.kind, thousands(len(f.Gaps)), p50, longest,
				strings.Join(spaces, "<br>"), thousands(f.Held), thousands(f.Lost), thousands(f.Early))
		}
	}
	return b.String()
}

// beyond is by how much each of them is longer than the database's of the same fault.
func beyond(of, database []time.Duration) (more []time.Duration) {
	if len(of) != len(database) {
		return nil
	}
	for i, d := range of {
		more = append(more, max(0, d-database[i]))
	}
	return more
}

// middle is the median and the longest.
func middle(times []time.Duration) (p50, longest string) {
	if len(times) == 0 {
		return "–", "–"
	}
	times = slices.Sorted(slices.Values(times))
	return short(times[len(times)/2]), short(times[len(times)-1])
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
