package observability

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"gopkg.in/yaml.v3"

	"github.com/rowlock/rowlock"
	promrowlock "github.com/rowlock/rowlock/adapters/prom"
	"github.com/rowlock/rowlock/memory"
	"github.com/rowlock/rowlock/observability/internal/grafana"
)

// ofTextfile are the metrics that `rowlock run --metrics-file` writes.
var ofTextfile = []string{
	"rowlock_run_first_start_timestamp_seconds", "rowlock_run_last_success_timestamp_seconds", "rowlock_run_period_seconds",
	"rowlock_run_last_exit_code", "rowlock_run_lost_total",
}

var descName = regexp.MustCompile(`fqName: "([^"]+)".*variableLabels: \{([^}]*)\}`)

// exported are the metrics of promrowlock, with their labels.
func exported(t *testing.T) map[string][]string {
	t.Helper()
	_, metrics := promrowlock.New(promrowlock.Options{})
	locks, err := rowlock.New(memory.New(), rowlock.Options{})
	if err != nil {
		t.Fatal(err)
	}
	keys, err := promrowlock.NewDBCollector(locks, promrowlock.DBOptions{})
	if err != nil {
		t.Fatal(err)
	}
	names := make(map[string][]string)
	for _, c := range []prometheus.Collector{metrics, keys} {
		descs := make(chan *prometheus.Desc, 100)
		c.Describe(descs)
		close(descs)
		for d := range descs {
			m := descName.FindStringSubmatch(d.String())
			if m == nil {
				t.Fatalf("no name in %s", d)
			}
			names[m[1]] = strings.Split(m[2], ",")
		}
	}
	return names
}

func readDashboard(t *testing.T) grafana.Dashboard {
	t.Helper()
	d, err := grafana.Read("grafana.json")
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// rule is an alert.
type rule struct {
	Alert, Expr         string
	Labels, Annotations map[string]string
}

func readRules(t *testing.T) (all []rule) {
	t.Helper()
	text, err := os.ReadFile("alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Groups []struct{ Rules []rule } }
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	for _, g := range file.Groups {
		all = append(all, g.Rules...)
	}
	if len(all) < 8 {
		t.Fatalf("only %d rules", len(all))
	}
	return all
}

var (
	metricName = regexp.MustCompile(`\browlock_[a-z_]+`)
	suffix     = regexp.MustCompile(`_(bucket|count|sum)$`)
	selector   = regexp.MustCompile(`(\browlock_[a-z_]+)\{([^}]*)\}`)
	labelName  = regexp.MustCompile(`([a-z_]+)(=|!)`)
	byLabels   = regexp.MustCompile(`\bby \(([^)]*)\)`)
	without    = regexp.MustCompile(`\bwithout \(([^)]*)\)`)
)

// usedIn are the metrics of an expression, without the suffixes of histograms.
func usedIn(expr string, names map[string][]string) (used []string) {
	for _, name := range metricName.FindAllString(expr, -1) {
		if _, found := names[name]; !found {
			name = suffix.ReplaceAllString(name, "")
		}
		used = append(used, name)
	}
	return used
}

// checkExpr fails the test if an expression has a metric, or a label of one, that there is not.
func checkExpr(t *testing.T, where, expr string, names map[string][]string) (used []string) {
	t.Helper()
	used = usedIn(expr, names)
	if len(used) == 0 {
		t.Errorf("%s has no metric: %s", where, expr)
	}
	labels := map[string]bool{"job": true, "instance": true, "le": true}
	for _, name := range used {
		if _, found := names[name]; !found && !slices.Contains(ofTextfile, name) {
			t.Errorf("%s has %s, which promrowlock does not export", where, name)
		}
		for _, l := range names[name] {
			labels[l] = true
		}
		if slices.Contains(ofTextfile, name) {
			labels["key"] = true
		}
	}
	for _, m := range selector.FindAllStringSubmatch(expr, -1) {
		name := usedIn(m[1], names)[0]
		for _, l := range labelName.FindAllStringSubmatch(m[2], -1) {
			if l[1] != "job" && l[1] != "le" && !slices.Contains(names[name], l[1]) {
				t.Errorf("%s: %s has no label %s", where, name, l[1])
			}
		}
	}
	for _, m := range byLabels.FindAllStringSubmatch(expr, -1) {
		for _, l := range strings.Split(m[1], ", ") {
			if !labels[l] {
				t.Errorf("%s: by %s, which none of its metrics has: %s", where, l, expr)
			}
		}
	}
	for _, m := range without.FindAllStringSubmatch(expr, -1) {
		if m[1] != "instance, pod" {
			t.Errorf("%s: without (%s): what belongs to one process is instance and pod: %s", where, m[1], expr)
		}
	}
	return used
}

// TestTextfileNames: rowlock run writes the metrics that rules are about.
func TestTextfileNames(t *testing.T) {
	source, err := os.ReadFile("../cmd/rowlock/rowlockcli/metrics.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range ofTextfile {
		if !strings.Contains(string(source), `"`+name+`"`) {
			t.Errorf("rowlock run does not write %s", name)
		}
	}
}

// TestDashboardNames: the dashboard has every metric that promrowlock exports, and no other; so for
// labels.
func TestDashboardNames(t *testing.T) {
	names := exported(t)
	shown := make(map[string]bool)
	d := readDashboard(t)
	for _, v := range d.Templating.List {
		if v.Definition != "" {
			checkExpr(t, "variable "+v.Name, v.Definition, names)
		}
	}
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			for _, name := range checkExpr(t, "panel "+p.Title, target.Expr, names) {
				shown[name] = true
			}
		}
		if !p.IsRow() && len(p.Targets) == 0 {
			t.Errorf("panel %s shows nothing", p.Title)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if !shown[name] {
			t.Errorf("no panel shows %s", name)
		}
	}
}

var heading = regexp.MustCompile(`(?m)^## (.*)$`)

// sections are those of the runbook, by the names that links have for them.
func sections(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile("../docs/runbook.md")
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string]string)
	at := heading.FindAllSubmatchIndex(text, -1)
	for i, h := range at {
		end := len(text)
		if i+1 < len(at) {
			end = at[i+1][0]
		}
		name := strings.ReplaceAll(strings.ToLower(string(text[h[2]:h[3]])), " ", "-")
		found[name] = string(text[h[1]:end])
	}
	return found
}

// TestAlertNames: the rules have metrics and labels that there are; each links to a section of the runbook, which
// names it, and the guide has a row of it with the same link.
func TestAlertNames(t *testing.T) {
	names, runbook := exported(t), sections(t)
	guide, err := os.ReadFile("../docs/guides/observing.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range readRules(t) {
		checkExpr(t, r.Alert, r.Expr, names)
		if byLabels.MatchString(r.Expr) {
			t.Errorf("%s: by (…) drops the labels of environments, so that one hides another: use without (instance, pod): %s", r.Alert, r.Expr)
		}
		section, found := strings.CutPrefix(r.Annotations["runbook"], "docs/runbook.md#")
		switch text, there := runbook[section]; {
		case !found || !there:
			t.Errorf("%s: its runbook is %q, which is no section of docs/runbook.md", r.Alert, r.Annotations["runbook"])
		case !strings.Contains(text, "`"+r.Alert+"`"):
			t.Errorf("%s: its section of the runbook, %s, does not name it", r.Alert, section)
		}
		row := regexp.MustCompile("(?m)^\\| `" + r.Alert + "` \\| " + r.Labels["severity"] + " \\|.*\\(\\.\\./runbook\\.md#" + section + "\\) \\|$")
		if !row.Match(guide) {
			t.Errorf("the guide has no row of %s with its severity and its link", r.Alert)
		}
		if r.Annotations["summary"] == "" {
			t.Errorf("%s has no summary", r.Alert)
		}
	}
}

// TestKeyIsNoLabel: no metric has a label with as many values as there are keys.
func TestKeyIsNoLabel(t *testing.T) {
	names := exported(t)
	if len(names) < 20 {
		t.Fatalf("only %d metrics: does the search still work?", len(names))
	}
	for name, labels := range names {
		for _, l := range labels {
			if !slices.Contains([]string{"", "client", "lock", "outcome", "end", "result", "reason", "op", "version", "store", "prefix", "state"}, l) {
				t.Errorf("%s has the label %q", name, l)
			}
		}
	}
}
