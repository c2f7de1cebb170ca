package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
)

// outcome is what became of a test command.
type outcome struct {
	tests    []string // that ran to their end or failed, not those that skipped
	failed   []string // the tests that failed, without those that failed for a test in them
	line     string   // of the first failure
	noBuild  string   // why it does not compile
	timedOut bool
	output   string // all of it
}

// event is a line of go test -json: https://pkg.go.dev/cmd/test2json
type event struct {
	Action, Test, Output, FailedBuild string
}

var (
	report = regexp.MustCompile(`^\s*\w+\.go:\d+: (.*)`)
	syntax = regexp.MustCompile(`\.go:\d+:(?:\d+:)? (.*)`)
	crash  = regexp.MustCompile(`^(?:panic|fatal error): (.*)|^(WARNING: DATA RACE)`)
)

// read reads the events of a test command.
func read(events io.Reader) (*outcome, error) {
	o := &outcome{}
	var failed []string
	said := make(map[string][]string) // by test
	var all, build strings.Builder
	lines := bufio.NewScanner(events)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return nil, fmt.Errorf("go test said %q: %w", lines.Text(), err)
		}
		switch e.Action {
		case "output":
			said[e.Test] = append(said[e.Test], strings.TrimRight(e.Output, "\n"))
			all.WriteString(e.Output)
		case "build-output":
			build.WriteString(e.Output)
		case "build-fail":
			o.noBuild = "it does not compile"
		case "pass", "fail":
			if e.FailedBuild != "" {
				o.noBuild = "it does not compile"
			}
			if e.Test == "" {
				break
			}
			o.tests = append(o.tests, e.Test)
			if e.Action == "fail" {
				failed = append(failed, e.Test)
			}
		}
	}
	if o.noBuild != "" {
		o.noBuild += ": " + firstOf(strings.Split(build.String(), "\n"), syntax)
	}
	for _, test := range failed {
		if !slices.ContainsFunc(failed, func(other string) bool { return strings.HasPrefix(other, test+"/") }) {
			o.failed = append(o.failed, test)
		}
	}
	o.output = build.String() + all.String()
	o.timedOut = strings.Contains(o.output, "panic: test timed out after")
	for _, test := range o.failed {
		if o.line = firstOf(said[test], report); o.line == "" {
			o.line = firstOf(said[test], crash)
		}
		if o.line != "" {
			break
		}
	}
	return o, lines.Err()
}

// firstOf is what the first line that the expression matches says.
func firstOf(lines []string, re *regexp.Regexp) string {
	for _, line := range lines {
		if m := re.FindStringSubmatch(line); m != nil {
			return strings.TrimSpace(strings.Join(m[1:], ""))
		}
	}
	return ""
}
