package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"time"
)

// test is one test or subtest.
type test struct{ pkg, name string }

func (t test) String() string { return t.pkg + " " + t.name }

// result is what a report says.
type result struct {
	failed []test   // without those that failed by a subtest of theirs
	never  []string // what no load excuses
	passed map[test]bool
	took   map[test]time.Duration // by tests without subtests
	output string                 // of the tests
}

// breach is what locktest.Breach begins with.
var breach = regexp.MustCompile(`\bBREACH P\d+: .*`)

// read reads what `go test -json` printed.
func read(text []byte) (result, error) {
	r := result{passed: make(map[test]bool), took: make(map[test]time.Duration)}
	var output strings.Builder
	failedIn := make(map[string]bool) // packages
	raced := make(map[string]bool)
	panicked := make(map[string]string)
	outer := make(map[test]bool)
	whole := make(map[test]bool) // they have subtests
	open := make(map[test]bool)  // begun, and without an end
	var failed []test
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, 64<<20)
	number := 0
	for lines.Scan() {
		number++
		var e struct {
			Action, Package, Test, Output string
			Elapsed                       float64
		}
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return r, fmt.Errorf("line %d: %w", number, err)
		}
		t := test{e.Package, e.Test}
		output.WriteString(e.Output)
		if strings.Contains(e.Output, "WARNING: DATA RACE") && !raced[e.Package] {
			raced[e.Package] = true
			r.never = append(r.never, "a data race in "+t.String())
		}
		if said := breach.FindString(e.Output); said != "" {
			r.never = append(r.never, t.String()+": "+said)
		}
		if e.Test != "" {
			switch e.Action {
			case "run":
				open[t] = true
			case "pass", "fail", "skip":
				delete(open, t)
				r.took[t] = time.Duration(e.Elapsed * float64(time.Second))
				if i := strings.LastIndex(e.Test, "/"); i > 0 {
					whole[test{e.Package, e.Test[:i]}] = true
				}
			}
		}
		switch {
		case e.Action == "pass" && e.Test != "":
			r.passed[t] = true
		case e.Action == "fail" && e.Test != "":
			failed = append(failed, t)
			failedIn[e.Package] = true
			for name := e.Test; strings.Contains(name, "/"); {
				name = name[:strings.LastIndex(name, "/")]
				outer[test{e.Package, name}] = true
			}
		case strings.HasPrefix(e.Output, "panic: "):
			panicked[e.Package] = t.String() + " ended the others by a " + strings.TrimSpace(e.Output)
		case e.Action == "fail" && panicked[e.Package] != "":
			r.never = append(r.never, panicked[e.Package])
		case e.Action == "fail" && within(open, e.Package):
			r.never = append(r.never, e.Package+" ended before its tests did")
		case e.Action == "fail" && !failedIn[e.Package]:
			r.never = append(r.never, e.Package+" failed without a failed test")
		}
	}
	if number == 0 {
		return r, fmt.Errorf("it is empty")
	}
	for _, t := range failed {
		if !outer[t] {
			r.failed = append(r.failed, t)
		}
	}
	for t := range whole {
		delete(r.took, t)
	}
	r.output = output.String()
	return r, lines.Err()
}

// within reports whether a test of the package is among tests.
func within(tests map[test]bool, pkg string) bool {
	for t := range tests {
		if t.pkg == pkg {
			return true
		}
	}
	return false
}
