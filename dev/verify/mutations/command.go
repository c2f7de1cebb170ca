package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

// command is a test command as a patch names it, in the form
// go test -run 'pattern' [flags] ./package; it is run in the repository's root.
type command struct {
	pattern string
	flags   []string
	pkg     string
}

var commandForm = regexp.MustCompile(`^go test -run '?([^' ]+)'?((?: -\S+)*) (\.\S*)$`)

func parseCommand(text string) (command, error) {
	m := commandForm.FindStringSubmatch(text)
	if m == nil {
		return command{}, fmt.Errorf("%q is not of the form: go test -run 'pattern' ./package", text)
	}
	return command{pattern: m[1], flags: strings.Fields(m[2]), pkg: m[3]}, nil
}

func (c command) String() string {
	return strings.Join(slices.Concat([]string{"go test -run '" + c.pattern + "'"}, c.flags, []string{c.pkg}), " ")
}

// args are those of go, for a run whose output is events. A bug is to be caught by a test,
// so nothing is vetted.
func (c command) args(limit time.Duration) []string {
	args := []string{"test", "-json", "-vet=off", "-timeout=" + limit.String(), "-run", c.pattern}
	if !slices.ContainsFunc(c.flags, func(f string) bool { return strings.HasPrefix(f, "-count=") }) {
		args = append(args, "-count=1")
	}
	return append(append(args, c.flags...), c.pkg)
}

// grouped are as few commands as have all the tests of cs.
func grouped(cs []command) (groups []command) {
	for _, c := range cs {
		i := slices.IndexFunc(groups, func(g command) bool { return g.pkg == c.pkg && slices.Equal(g.flags, c.flags) })
		switch {
		case i < 0:
			groups = append(groups, c)
		case !slices.Contains(alternatives(groups[i].pattern), c.pattern):
			groups[i].pattern += "|" + c.pattern
		}
	}
	return groups
}

// alternatives are the parts of a pattern of go test -run that each choose tests.
func alternatives(pattern string) []string { return split(pattern, '|') }

// split splits at a byte that is not in parentheses.
func split(s string, by byte) (parts []string) {
	depth, from := 0, 0
	for i := range len(s) {
		switch {
		case s[i] == '(':
			depth++
		case s[i] == ')':
			depth--
		case s[i] == by && depth == 0:
			parts = append(parts, s[from:i])
			from = i + 1
		}
	}
	return append(parts, s[from:])
}

// unmatched are the alternatives of a pattern by which none of the tests was chosen,
// or only one above it: TestA/B of which there is TestA.
func unmatched(pattern string, tests []string) (without []string, err error) {
	for _, alternative := range alternatives(pattern) {
		var levels []*regexp.Regexp
		for _, text := range split(alternative, '/') {
			re, err := regexp.Compile(text)
			if err != nil {
				return nil, err
			}
			levels = append(levels, re)
		}
		if !slices.ContainsFunc(tests, func(test string) bool { return matches(levels, strings.Split(test, "/")) }) {
			without = append(without, alternative)
		}
	}
	return without, nil
}

func matches(levels []*regexp.Regexp, names []string) bool {
	if len(names) < len(levels) {
		return false
	}
	for i, re := range levels {
		if !re.MatchString(names[i]) {
			return false
		}
	}
	return true
}
