package plots

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rowlock/rowlock/dev/bench/internal/lab"
	"github.com/rowlock/rowlock/dev/bench/internal/report"
	"github.com/rowlock/rowlock/dev/bench/internal/result"
	"github.com/rowlock/rowlock/dev/bench/internal/side"
)

// measured is a run of three rounds, of which some values go below 0.
func measured() *result.File {
	f := &result.File{Rounds: 3, Started: time.Date(2026, 11, 22, 15, 12, 0, 0, time.UTC),
		Machine: result.Machine{CPU: "AMD EPYC", Cores: 2, FsyncP50: 0.24, LoadMost: 42}}
	add := func(number, what, metric string, values ...float64) {
		for _, v := range values {
			f.Add(result.At{Number: number, Server: lab.MySQL, Side: side.Version, Case: what}, metric, v)
		}
	}
	add("N2", "1 worker", "cycles/s", 100, 110, 120)
	add("N2", "128 workers", "cycles/s", 1000, 1100, 1200)
	add("P15", "100 blocked", "p99 more, less 4 trips, ms", -2, 1, 3)
	add("renew", "10 leases", "p50 ms", 2)
	add("renew", "1000 leases", "p50 ms", 30)
	return f
}

// drawn are the pictures of a run, by their names.
func drawn(t *testing.T, f *result.File) map[string]string {
	t.Helper()
	folder := t.TempDir()
	if _, err := Write(f, folder); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(folder, "*.svg"))
	if err != nil {
		t.Fatal(err)
	}
	pictures := map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		pictures[filepath.Base(file)] = string(text)
	}
	return pictures
}

// TestFigures: a picture says what is seen, of which machine and when; what was not measured is not drawn.
func TestFigures(t *testing.T) {
	f, later := measured(), measured()
	later.Started = time.Date(2026, 11, 23, 15, 23, 0, 0, time.UTC)
	f.Later = map[string]*result.File{"renew": later}
	pictures := drawn(t, f)
	for name, parts := range map[string][]string{
		"cycles":  {"128 callers get 10 times the locks of one", "2026-11-22", "VersionColumn"},
		"blocked": {"at most 1 ms", "2026-11-22"},
		"renew":   {"1000 leases are renewed in 30 ms", "2026-11-23"},
		"compare": {"1100", "2026-11-22"},
	} {
		for _, theme := range []string{"light", "dark"} {
			text := strings.ReplaceAll(pictures[name+"-"+theme+".svg"], "</text>\n", "")
			text = regexp.MustCompile(`<text[^>]*>`).ReplaceAllString(text, " ") // lines of one sentence
			for _, part := range append(parts, "a sync in 0.24 ms", "load up to 42") {
				if !strings.Contains(text, part) {
					t.Errorf("%s, %s does not say %q", name, theme, part)
				}
			}
		}
	}
	if len(pictures) != 8 {
		t.Errorf("%d pictures, want 8", len(pictures))
	}
}

var written = regexp.MustCompile(`<text x="([^"]*)" y="([^"]*)" font-size="([^"]*)" fill="[^"]*"( font-weight="600")?(?: text-anchor="([^"]*)")?>([^<]*)<`)

// TestNothingIsCut: each text of the pictures of the documentation is inside of its picture, in the widest of the fonts.
func TestNothingIsCut(t *testing.T) {
	for name, picture := range drawn(t, stored(t)) {
		texts := written.FindAllStringSubmatch(picture, -1)
		if len(texts) != strings.Count(picture, "<text") {
			t.Errorf("%s: %d of %d texts were read", name, len(texts), strings.Count(picture, "<text"))
		}
		for _, m := range texts {
			x, _ := strconv.ParseFloat(m[1], 64)
			size, _ := strconv.ParseFloat(m[3], 64)
			width := wide(m[6], font{size: size, bold: m[4] != ""})
			switch m[5] {
			case "middle":
				x -= width / 2
			case "end":
				x -= width
			}
			if x < 0 || x+width > panelWidth {
				t.Errorf("%s: %q goes from %.0f to %.0f", name, m[6], x, x+width)
			}
		}
	}
}

// stored is the run whose tables are in the repository.
func stored(t *testing.T) *result.File {
	t.Helper()
	f, err := report.Read("../../results")
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestPicturesOfTheDocumentation: they are those of the tables in the repository; make charts draws them.
func TestPicturesOfTheDocumentation(t *testing.T) {
	pictures := drawn(t, stored(t))
	if len(pictures) != 20 {
		t.Errorf("%d pictures, want 20", len(pictures))
	}
	for name, picture := range pictures {
		file := filepath.Join("../../../../docs/img", name)
		text, err := os.ReadFile(file)
		if err != nil {
			t.Error(err)
		} else if string(text) != picture {
			t.Errorf("%s is not as the tables of dev/bench/results: run make charts", file)
		}
	}
}

// TestColours: a side has one colour, and none has that of another.
func TestColours(t *testing.T) {
	for _, theme := range themes {
		var seen []string
		for _, s := range slices.Concat(strategies, []string{side.Poller, side.Floor, side.GetLock}) {
			c := theme.colour(s)
			if slices.Contains(seen, c) {
				t.Errorf("%s: %s has the colour of another", theme.name, s)
			}
			seen = append(seen, c)
		}
	}
}

// TestFewLines: no panel has more than six lines.
func TestFewLines(t *testing.T) {
	f := stored(t)
	for _, g := range []figure{cycles(f), statements(f), distance(f), readers(f), renewals(f)} {
		for _, p := range g.drawing.(curves).panels {
			if n := len(p.lines); n > 6 {
				t.Errorf("%s, %s: %d lines", g.name, p.title, n)
			}
		}
	}
}
