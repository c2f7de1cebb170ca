package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
)

// failure is one run of one test that failed.
type failure struct {
	pkg, test string
	messages  []message
	inner     bool // a subtest of it failed
}

// message is what a test said at a line of a source: a failure or a log line.
type message struct {
	file string
	line int
	text string // with the lines that follow
}

// says begins a message. What belongs to it is indented further.
var says = regexp.MustCompile(`^    (\S+\.go):(\d+): (.*)`)

// parse reads one report, in which a test that ran twice stands twice, and counts the data races, of tests and of what
// runs beside them.
func parse(r io.Reader) (failed []failure, races int, err error) {
	runs := make(map[[2]string]*failure)
	lines := bufio.NewReader(r)
	for number := 1; ; number++ {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF && len(line) == 0 {
			return failed, races, nil
		} else if err != nil && err != io.EOF {
			return nil, 0, err
		}
		var e struct{ Action, Package, Test, Output string }
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, 0, fmt.Errorf("line %d: %w", number, err)
		}
		if strings.Contains(e.Output, "WARNING: DATA RACE") {
			races++
		}
		if e.Test == "" {
			continue
		}
		id := [2]string{e.Package, e.Test}
		run := runs[id]
		if run == nil {
			run = &failure{pkg: e.Package, test: e.Test}
			runs[id] = run
		}
		switch e.Action {
		case "output":
			run.hear(strings.TrimSuffix(e.Output, "\n"))
		case "fail":
			failed = append(failed, *run)
			for outer := e.Test; strings.Contains(outer, "/"); {
				outer = outer[:strings.LastIndex(outer, "/")]
				if o := runs[[2]string{e.Package, outer}]; o != nil {
					o.inner = true
				}
			}
			delete(runs, id)
		case "pass", "skip":
			delete(runs, id)
		}
	}
}

// hear adds one line of output.
func (f *failure) hear(line string) {
	if m := says.FindStringSubmatch(line); m != nil {
		n, _ := strconv.Atoi(m[2])
		f.messages = append(f.messages, message{m[1], n, m[3]})
	} else if more, ok := strings.CutPrefix(line, "        "); ok && len(f.messages) > 0 {
		f.messages[len(f.messages)-1].text += "\n" + more
	}
}
