package doctor

import (
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write the tables into docs/doctor.md")

// TestDoctorPage: docs/doctor.md says what the tables say.
func TestDoctorPage(t *testing.T) {
	const page, mark = "../docs/doctor.md", "<!-- the tables of package doctor; go test ./doctor -run TestDoctorPage -update -->\n"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	head, _, found := strings.Cut(string(text), mark)
	if !found {
		t.Fatalf("%s has no mark", page)
	}
	want := head + mark + "\n## MySQL and MariaDB\n\n" + Markdown(MySQL()) + "\n## MongoDB\n\n" + Markdown(Mongo())
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if string(text) != want {
		t.Errorf("%s is not what the tables say: go test ./doctor -run TestDoctorPage -update", page)
	}
}

var braces = regexp.MustCompile(`\{[^}]*\}`)

// TestTables: IDs are there once, in order, and each verdict says what it is about.
func TestTables(t *testing.T) {
	for first, table := range map[string][]Entry{"RL101": MySQL(), "RL201": Mongo()} {
		if table[0].ID != first {
			t.Errorf("the table begins with %s", table[0].ID)
		}
		for i, e := range table {
			if !regexp.MustCompile(`^`+first[:3]+`\d\d$`).MatchString(e.ID) || i > 0 && e.ID <= table[i-1].ID {
				t.Errorf("%s does not come after %s", e.ID, table[max(i-1, 0)].ID)
			}
			if e.Title == "" || e.Look == "" || len(e.Verdicts) == 0 {
				t.Errorf("%s: a text is missing: %+v", e.ID, e)
			}
			var severities []Severity
			for _, v := range e.Verdicts {
				if v.When == "" || v.Advice == "" || v.Severity == OK || v.Severity == Skipped || slices.Contains(severities, v.Severity) ||
					strings.ContainsAny(v.When+v.Advice+v.Command, "|\n") || !strings.HasSuffix(v.Advice, ".") {
					t.Errorf("%s: %+v", e.ID, v)
				}
				severities = append(severities, v.Severity)
				if strings.Contains(braces.ReplaceAllString(v.Advice+v.Command, ""), "{}") {
					t.Errorf("%s: an empty name in %q %q", e.ID, v.Advice, v.Command)
				}
			}
		}
	}
}

// TestExit: the codes are those of Nagios' plugins.
func TestExit(t *testing.T) {
	for _, c := range []struct {
		found        []Severity
		plain, stern int
	}{
		{nil, ExitOK, ExitOK},
		{[]Severity{OK, Info}, ExitOK, ExitOK},
		{[]Severity{OK, Skipped}, ExitOK, ExitUnknown},
		{[]Severity{Warn, OK}, ExitWarn, ExitFail},
		{[]Severity{Warn, Skipped}, ExitWarn, ExitFail},
		{[]Severity{Skipped, Fail, Warn}, ExitFail, ExitFail},
	} {
		r := New(MySQL(), Options{})
		for _, s := range c.found {
			r.Add("RL101", s, "")
		}
		if r.Exit(false) != c.plain || r.Exit(true) != c.stern {
			t.Errorf("%v: %d, strictly %d; want %d, %d", c.found, r.Exit(false), r.Exit(true), c.plain, c.stern)
		}
	}
}

// TestIgnore: what is ignored is not in the report.
func TestIgnore(t *testing.T) {
	r := New(MySQL(), Options{Ignore: []string{"RL103"}})
	r.Add("RL103", Fail, "2")
	r.Add("RL102", Fail, "read_only is ON", "mend", "SET GLOBAL read_only=OFF")
	if len(r.Findings) != 1 || r.Findings[0].Command != "SET GLOBAL read_only=OFF" || r.Findings[0].Title != "the server takes writes" {
		t.Errorf("%+v", r.Findings)
	}
	r.Add("RL101", OK, "")
	r.Sort()
	if r.Findings[0].ID != "RL101" || len(r.Of("RL102")) != 1 || r.Worst() != Fail {
		t.Errorf("%+v", r)
	}
	r.Add("RL150", Skipped, "denied")
	if f := r.Of("RL150")[0]; !strings.Contains(f.Advice, "PROCESS") {
		t.Errorf("%+v: does not say which privilege would show it", f)
	}
}

// TestSane: how long a TTL must be.
func TestSane(t *testing.T) {
	for _, c := range []struct{ renewal, failover, want time.Duration }{
		{0, 0, 2 * time.Second},
		{time.Millisecond, 0, 2 * time.Second},
		{200 * time.Millisecond, 0, 4 * time.Second},
		{time.Millisecond, 12 * time.Second, 21200 * time.Millisecond},
		{time.Millisecond, 30 * time.Second, 52900 * time.Millisecond},
		{time.Millisecond, 90 * time.Second, 158800 * time.Millisecond},
	} {
		if got := Sane(c.renewal, c.failover).Round(100 * time.Millisecond); got != c.want {
			t.Errorf("renewal %v, failover %v: %v, want %v", c.renewal, c.failover, got, c.want)
		}
	}
	for _, c := range []struct {
		ttl, renewal time.Duration
		slow, short  Severity
	}{
		{30 * time.Second, time.Second, OK, OK},
		{30 * time.Second, 2 * time.Second, Warn, Warn},
		{30 * time.Second, 6 * time.Second, Fail, Warn},
		{time.Second, time.Millisecond, OK, Warn},
	} {
		o := Options{TTL: c.ttl}
		r := New(MySQL(), o)
		r.Renewal = QuantilesOf([]time.Duration{c.renewal, 0})
		r.Judge("RL161", "RL162", o, 0)
		if got := r.Of("RL161")[0]; got.Severity != c.slow || strings.Contains(got.Advice, "{") {
			t.Errorf("%v for %v: %+v", c.renewal, c.ttl, got)
		}
		if got := r.Of("RL162")[0]; got.Severity != c.short || strings.Contains(got.Advice, "{") {
			t.Errorf("%v for %v: %+v", c.renewal, c.ttl, got)
		}
	}
}

// TestQuantiles: of few samples the slowest counts.
func TestQuantiles(t *testing.T) {
	if q := QuantilesOf(nil); q != (Quantiles{}) {
		t.Errorf("of none: %+v", q)
	}
	samples := make([]time.Duration, 200)
	for i := range samples {
		samples[i] = time.Duration(200 - i)
	}
	if q := QuantilesOf(samples); q != (Quantiles{P50: 101, P99: 199, Max: 200}) {
		t.Errorf("%+v", q)
	}
	if q := QuantilesOf([]time.Duration{3, 1, 2}); q != (Quantiles{P50: 2, P99: 3, Max: 3}) {
		t.Errorf("%+v", q)
	}
}

// TestJSON: the form that other programs read.
func TestJSON(t *testing.T) {
	r := New(MySQL(), Options{})
	r.Server, r.Renewal.P99, r.Skew = "MySQL", 1500*time.Microsecond, -2*time.Millisecond
	r.Add("RL103", Fail, "is 2", "SET", "SET PERSIST")
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"server":"MySQL"`, `"worst":"fail"`, `"id":"RL103","severity":"fail"`, `"command":"SET PERSIST innodb_flush_log_at_trx_commit=1"`,
		`"renewal_ms":{"p50":0,"p99":1.5,"max":0}`, `"skew_ms":-2`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %s in %s", want, text)
		}
	}
	var s Severity
	if err := s.UnmarshalText([]byte("warn")); err != nil || s != Warn {
		t.Error(s, err)
	}
	if err := s.UnmarshalText([]byte("bad")); err == nil || Severity(9).String() != "severity 9" {
		t.Error(err)
	}
}

var tested = regexp.MustCompile(`"(RL\d{3})", doctor\.(\w+)`)

// TestTablesAreTested: each verdict of a table is found by a test on a real server.
func TestTablesAreTested(t *testing.T) {
	for dir, table := range map[string][]Entry{"../mysql": MySQL(), "../mongo": Mongo()} {
		files, err := filepath.Glob(dir + "/doctor*_test.go")
		inside, err2 := filepath.Glob(dir + "/internal/doctor/*_test.go")
		if err = errors.Join(err, err2); err != nil || len(files) == 0 || len(inside) == 0 {
			t.Fatalf("%s has %d files of tests, and %d in internal/doctor: %v", dir, len(files), len(inside), err)
		}
		files = append(files, inside...)
		seen := make(map[string]bool)
		for _, name := range files {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range tested.FindAllStringSubmatch(string(text), -1) {
				seen[m[1]+" "+strings.ToLower(m[2])] = true
			}
		}
		for _, entry := range table {
			for _, v := range entry.Verdicts {
				if name := entry.ID + " " + v.Severity.String(); !seen[name] {
					t.Errorf("no test of %s finds %s", dir, name)
				}
			}
		}
	}
}
