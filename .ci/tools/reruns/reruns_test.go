package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

const pkg = "example.com/a"

// end is the end of a package that failed.
const end = `{"Action":"fail","Package":"` + pkg + `"}` + "\n"

// run makes what `go test -json` prints of one run of one test: the lines that it said, and its end.
func run(name, end string, said ...string) string {
	var b strings.Builder
	event := func(action, output string) {
		text, _ := json.Marshal(map[string]string{"Action": action, "Package": pkg, "Test": name, "Output": output})
		b.Write(append(text, '\n'))
	}
	event("run", "")
	for _, line := range said {
		event("output", line+"\n")
	}
	event(end, "")
	return b.String()
}

func TestJudge(t *testing.T) {
	failed := run("TestA", "fail", "    a_test.go:1: no")
	for name, c := range map[string]struct {
		report string
		again  []string // what each further run prints; the last of them passes if it says so
		bad    int
		said   string
	}{
		"nothing failed":                 {run("TestA", "pass", "    a_test.go:1: logged"), nil, 0, "passed at its first run"},
		"it passes at the second try":    {failed, []string{run("TestA", "pass")}, 0, "flaky: example.com/a TestA"},
		"it passes at the third try":     {failed, []string{failed, run("TestA", "pass")}, 0, "flaky: example.com/a TestA"},
		"it never passes":                {failed, []string{failed, failed}, 1, "TestA failed 3 times"},
		"it is not there any more":       {failed, []string{run("TestB", "pass"), run("TestB", "pass")}, 1, "TestA failed 3 times"},
		"a subtest failed, and is again": {run("TestA/b", "fail") + run("TestA", "fail"), []string{run("TestA/b", "pass")}, 0, "flaky: example.com/a TestA/b"},
		"a data race":                    {run("TestA", "pass", "WARNING: DATA RACE"), nil, 1, "data race"},
		"a breach":                       {run("TestA", "fail", "    a_test.go:1: BREACH P1: two holders"), []string{run("TestA", "pass")}, 1, "BREACH P1: two holders"},
		"a breach at the second try":     {failed, []string{run("TestA", "fail", "    a.go:1: BREACH P3: token 3 after 4")}, 1, "BREACH P3"},
		"a panic":                        {run("TestA", "fail", "panic: nil map") + end, []string{run("TestA", "pass")}, 1, "panic: nil map"},
		"a panic that was printed only":  {run("TestA", "pass", "panic: nil map"), nil, 0, "passed at its first run"},
		"a package that did not compile": {end, nil, 1, "failed without a failed test"},
		"a package that was ended":       {failed + `{"Action":"run","Package":"example.com/a","Test":"TestB"}` + "\n" + end, []string{run("TestA", "pass")}, 1, "ended before its tests did"},
		"too many":                       {strings.Join(many(most+1), ""), nil, 1, "too many"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "a.json")
			if err := errors.Join(os.WriteFile(file, []byte(c.report), 0o644), os.WriteFile(strings.TrimSuffix(file, "json")+"args", []byte(".\n-short\n"), 0o644)); err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			next := 0
			bad, err := judge(&out, []string{file}, make(map[test]time.Duration), func(args []string, again test) ([]byte, error) {
				said := c.again[next]
				next++
				if strings.Join(args, " ") != ". -short" {
					t.Errorf("run with %v", args)
				}
				if strings.Contains(said, `"fail"`) {
					return []byte(said), errors.New("exit code 1")
				}
				return []byte(said), nil
			})
			if err != nil || bad != c.bad || !strings.Contains(out.String(), c.said) {
				t.Errorf("%d refused, %v, want %d and %q:\n%s", bad, err, c.bad, c.said, out.String())
			}
		})
	}
}

func many(n int) (texts []string) {
	for i := range n {
		texts = append(texts, run("Test"+string(rune('A'+i)), "fail"))
	}
	return texts
}

func TestReportsThatCannotBeRead(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "a.json")
	_ = os.WriteFile(empty, nil, 0o644)
	_ = os.WriteFile(strings.TrimSuffix(empty, "json")+"args", []byte("."), 0o644)
	for _, files := range [][]string{nil, {"none.json"}, {empty}} {
		if _, err := judge(&bytes.Buffer{}, files, nil, nil); err == nil {
			t.Errorf("%v: no error", files)
		}
	}
	if _, err := read([]byte("this is no JSON\n")); err == nil {
		t.Error("no JSON: no error")
	}
}

// TestAlone runs a real test.
func TestAlone(t *testing.T) {
	said, err := alone([]string{".", "-short"}, test{"github.com/rowlock/rowlock/tools/reruns", "TestJudge/a_data_race"})
	if err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	r, err := read(said)
	if err != nil || !r.passed[test{"github.com/rowlock/rowlock/tools/reruns", "TestJudge/a_data_race"}] || len(r.passed) != 2 {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestSlowest(t *testing.T) {
	var report strings.Builder
	for i, name := range []string{"TestA/b", "TestA/c", "TestD", "TestE", "TestF", "TestG", "TestA"} {
		report.WriteString(`{"Action":"pass","Package":"` + pkg + `","Test":"` + name + `","Elapsed":` + strconv.Itoa(i) + ".5}\n")
	}
	r, err := read([]byte(report.String()))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		run  time.Duration
		want string
	}{
		{8 * time.Minute, "together; the slowest:\nreruns:    5.5 s example.com/a TestG\nreruns:    4.5 s example.com/a TestF\n"},
		{500 * time.Second, "reruns: 6 tests took 18 s together"},
		{500 * time.Second, "the run took 500 s, its bound is 480 s\n"},
	} {
		var out bytes.Buffer
		slowest(&out, r.took, c.run, 8*time.Minute)
		if text := out.String(); !strings.Contains(text, c.want) || strings.Contains(text, "TestA/b") || strings.Contains(text, "bound") != (c.run > 8*time.Minute) {
			t.Errorf("after %v it does not say %q:\n%s", c.run, c.want, text)
		}
	}
}
