package report

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/rowlock/rowlock/dev/bench/internal/number"
	"github.com/rowlock/rowlock/dev/bench/internal/result"
)

// Read reads the tables that Docs wrote into a folder: the run again, with what the tables show of it. Each number has
// the run that measured it. Of the rounds there are the least, the median and the largest.
func Read(folder string) (*result.File, error) {
	all := &result.File{Later: map[string]*result.File{}}
	for _, n := range number.Numbers {
		text, err := os.ReadFile(filepath.Join(folder, n.Name+".md"))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		of, err := readTable(n.Name, string(text), all)
		if err != nil {
			return nil, fmt.Errorf("%s.md: %w", n.Name, err)
		}
		all.Later[n.Name] = of
	}
	return all, nil
}

var (
	from  = regexp.MustCompile(`(?m)^From ` + "`[^`]*`" + `, (\d{4}-\d\d-\d\d \d\d:\d\d), .* s, (one round|medians of (\d+) rounds).*; load (.*) before it, up to (\S+) in it; (.*), (\d+) cores, a sync in (\S+) ms`)
	cells = regexp.MustCompile(`^(\S+)(?: \((\S+)–(\S+)\))?$`)
)

// readTable adds the values of a number's file, and returns what it says of the run.
func readTable(name, text string, to *result.File) (*result.File, error) {
	m := from.FindStringSubmatch(text)
	if m == nil {
		return nil, errors.New("it does not say where its values are from")
	}
	of := &result.File{Rounds: 1, Machine: result.Machine{CPU: m[6], LoadBefore: m[4]}}
	var err error
	if of.Started, err = time.Parse("2006-01-02 15:04", m[1]); err != nil {
		return nil, err
	}
	if m[3] != "" {
		of.Rounds, _ = strconv.Atoi(m[3])
	}
	of.Machine.LoadMost, _ = strconv.ParseFloat(m[5], 64)
	of.Machine.Cores, _ = strconv.Atoi(m[7])
	of.Machine.FsyncP50, _ = strconv.ParseFloat(m[8], 64)
	var head []string
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "| ") {
			continue
		}
		row := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range row {
			row[i] = strings.TrimSpace(row[i])
		}
		if head == nil {
			head = row
			continue
		}
		if strings.HasPrefix(row[0], "--") {
			continue
		}
		if len(row) != len(head) {
			return nil, fmt.Errorf("%d cells below %d heads: %s", len(row), len(head), line)
		}
		at := result.At{Number: name}
		for i, cell := range row {
			switch head[i] {
			case "server":
				at.Server = cell
			case "case":
				at.Case = cell
			case "side":
				at.Side = cell
			default:
				if err := read(to, at, head[i], cell); err != nil {
					return nil, err
				}
			}
		}
	}
	return of, nil
}

// read adds the values of a cell.
func read(to *result.File, at result.At, metric, text string) error {
	if text == "" || text == "void" {
		return nil
	}
	m := cells.FindStringSubmatch(text)
	if m == nil {
		return fmt.Errorf("no value: %q", text)
	}
	for _, digits := range []string{m[2], m[1], m[3]} {
		if digits == "" {
			continue
		}
		v, err := strconv.ParseFloat(digits, 64)
		if err != nil {
			return err
		}
		to.Add(at, metric, v)
	}
	return nil
}
