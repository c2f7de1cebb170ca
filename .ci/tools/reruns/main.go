// Command reruns runs each failed test again, alone, up to twice: what then passes is flaky, and refuses nothing.
//
//	reruns [-begun SECONDS] [-bound DURATION] REPORT.json…
//
// It ends with the slowest tests, and says so if the run, which began at that second of Unix time, took longer than its bound.
//
// A report is what `go test -json` printed of one unit; beside it REPORT.args has the folder and the flags of that run, a line each.
// Never excused are a data race, a breach (locktest.Breach: two holders, a token going back, a stale commit, a late signal of a loss),
// and a package that failed without a failed test: it did not compile, or it did not come to its end.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"time"
)

// tries is how often a failed test is run again. most is how many are: if more fail, then a server or the machine is broken.
const (
	tries = 2
	most  = 60
)

func main() {
	begun := flag.Int64("begun", 0, "when the run of the reports began, in seconds of Unix time")
	bound := flag.Duration("bound", 0, "how long it should take at most; 0: any time")
	flag.Parse()
	run := time.Since(time.Unix(*begun, 0))
	took := make(map[test]time.Duration)
	bad, err := judge(os.Stdout, flag.Args(), took, alone)
	if err != nil {
		fmt.Fprintln(os.Stderr, "reruns:", err)
		os.Exit(2)
	}
	slowest(os.Stdout, took, run, *bound)
	if bad > 0 {
		os.Exit(1)
	}
}

// judge reads the reports, runs again what failed, says what came of it, and counts what is not excused. It adds to took.
func judge(w io.Writer, files []string, took map[test]time.Duration, again func(args []string, t test) ([]byte, error)) (bad int, err error) {
	if len(files) == 0 {
		return 0, fmt.Errorf("no test reports: were the tests run?")
	}
	refuse := func(format string, args ...any) {
		bad++
		fmt.Fprintf(w, "reruns: REFUSED: "+format+"\n", args...)
	}
	type failure struct {
		test
		args []string
	}
	var failed []failure
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return 0, err
		}
		args, err := os.ReadFile(strings.TrimSuffix(file, ".json") + ".args")
		if err != nil {
			return 0, err
		}
		r, err := read(text)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", file, err)
		}
		maps.Copy(took, r.took)
		for _, why := range r.never {
			refuse("%s", why)
		}
		for _, t := range r.failed {
			failed = append(failed, failure{t, strings.Fields(string(args))})
		}
	}
	if len(failed) > most {
		refuse("%d tests failed, too many to run them again", len(failed))
		failed = nil
	}
	var flaky []test
next:
	for _, f := range failed {
		for try := range tries {
			fmt.Fprintf(w, "reruns: %s failed; alone, try %d of %d\n", f.test, try+1, tries)
			said, err := again(f.args, f.test)
			r, unread := read(said)
			switch {
			case unread != nil:
				return 0, fmt.Errorf("%s: %w\n%s", f.test, unread, said)
			case len(r.never) > 0:
				refuse("%s", strings.Join(r.never, "\n"))
				continue next
			case err == nil && r.passed[f.test]:
				flaky = append(flaky, f.test)
				continue next
			}
			fmt.Fprintf(w, "%s", r.output)
		}
		refuse("%s failed %d times", f.test, 1+tries)
	}
	for _, t := range flaky {
		fmt.Fprintf(w, "reruns: flaky: %s\n", t)
	}
	if len(flaky)+bad == 0 {
		fmt.Fprintln(w, "reruns: every test passed at its first run")
	}
	return bad, nil
}

// alone runs one test.
func alone(args []string, t test) ([]byte, error) {
	parts := strings.Split(t.name, "/")
	for i, p := range parts {
		parts[i] = "^" + regexp.QuoteMeta(p) + "$"
	}
	c := exec.Command("go", append(append([]string{"test", "-json", "-count=1", "-timeout=20m"}, args[1:]...), "-run", strings.Join(parts, "/"), t.pkg)...)
	c.Dir, c.Env = args[0], append(os.Environ(), "GOWORK=off")
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, os.Stderr
	err := c.Run()
	return out.Bytes(), err
}
