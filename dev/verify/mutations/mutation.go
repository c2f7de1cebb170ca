package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// mutation is one patch file.
type mutation struct {
	name   string // of the file, without .patch
	file   string
	title  string
	bug    string // what it does
	breaks []string
	tests  []command // any of which must fail
	short  bool
	paths  []string // the files that the diff changes
}

var (
	promise = regexp.MustCompile(`^(P([1-9]|1[0-9]|2[0-9])|fairness|cost|answers)$`) // fairness and cost are measured, and answers are for people: not promised
	changed = regexp.MustCompile(`(?m)^\+\+\+ b/(\S+)`)
)

// parse reads a patch file: lines "Field: text", which a line that begins with a space
// continues, up to the diff.
func parse(name, text string) (*mutation, error) {
	m := &mutation{name: name}
	header, diff, found := strings.Cut(text, "\ndiff --git ")
	if !found {
		return nil, fmt.Errorf("%s: no diff", name)
	}
	header = regexp.MustCompile(`\n +`).ReplaceAllString(header, " ")
	for line := range strings.Lines(header) {
		line = strings.TrimSpace(line)
		field, value, _ := strings.Cut(line, ": ")
		switch field {
		case "":
		case "Title":
			m.title = value
		case "Bug":
			m.bug = value
		case "Breaks":
			m.breaks = strings.Split(value, ", ")
		case "Test":
			c, err := parseCommand(value)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			m.tests = append(m.tests, c)
		case "Short":
			m.short = value == "yes"
		default:
			return nil, fmt.Errorf("%s: unknown line %q", name, line)
		}
	}
	for _, path := range changed.FindAllStringSubmatch(diff, -1) {
		m.paths = append(m.paths, path[1])
	}
	return m, m.check()
}

func (m *mutation) check() error {
	switch {
	case m.title == "" || m.bug == "" || len(m.tests) == 0:
		return fmt.Errorf("%s: Title, Bug and Test are needed", m.name)
	case len(m.breaks) == 0 || slices.ContainsFunc(m.breaks, func(p string) bool { return !promise.MatchString(p) }):
		return fmt.Errorf("%s: Breaks %q: name promises, P1 to P29, or fairness, cost or answers", m.name, m.breaks)
	case len(m.paths) == 0:
		return fmt.Errorf("%s: the diff changes no file", m.name)
	}
	for _, path := range m.paths {
		if strings.HasSuffix(path, "_test.go") || strings.HasPrefix(path, "locktest/") {
			return fmt.Errorf("%s: it changes the tests: %s", m.name, path)
		}
	}
	return nil
}

// load reads the patches of a folder, or those of them that are named.
func load(folder string, names []string) ([]*mutation, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.patch"))
	if err != nil {
		return nil, err
	}
	var all []*mutation
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".patch")
		if len(names) > 0 && !slices.Contains(names, name) {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		m, err := parse(name, string(text))
		if err != nil {
			return nil, err
		}
		m.file = file
		all = append(all, m)
	}
	for _, name := range names {
		if !slices.ContainsFunc(all, func(m *mutation) bool { return m.name == name }) {
			return nil, fmt.Errorf("no %s.patch in %s", name, folder)
		}
	}
	return all, nil
}
