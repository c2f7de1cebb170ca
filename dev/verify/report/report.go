// Package report adds the rounds of a run up: which promises held on which server,
// how many faults of which kind there were, and what they meant to callers.
package report

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/rowlock/rowlock/dev/testenv"
	"github.com/rowlock/rowlock/dev/verify/round"
)

// Report is the sum of a run. Its methods may be called from many goroutines.
type Report struct {
	command string
	started time.Time

	mu      sync.Mutex
	servers []*server
	failed  []string
	anew    map[testenv.Kind]int
	found   []string
}

// server is what there is about one server.
type server struct {
	kind     testenv.Kind
	name     string
	rounds   int
	seconds  float64
	spaces   map[string]round.Count
	faults   map[string]*round.FaultStats
	notRun   map[string]bool
	violated map[string]int // by fault: the rounds with that fault that found something
}

// New begins a report of a command.
func New(command string) *Report {
	return &Report{command: command, started: time.Now(), anew: map[testenv.Kind]int{}}
}

// Add adds a round on a server.
func (p *Report) Add(name string, r round.Result) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.server(r.Kind, name)
	s.rounds++
	s.seconds += r.Seconds
	for space, c := range r.Spaces {
		sum := s.spaces[space]
		sum.Operations += c.Operations
		sum.Answered += c.Answered
		sum.Grants += c.Grants
		sum.Violations += c.Violations
		s.spaces[space] = sum
	}
	for _, name := range r.NotRun {
		s.notRun[name] = true
	}
	for name, f := range r.Faults {
		sum := s.faults[name]
		if sum == nil {
			sum = round.NewFaultStats()
			s.faults[name] = sum
		}
		sum.Injected += f.Injected
		sum.Gaps = append(sum.Gaps, f.Gaps...)
		sum.Database = append(sum.Database, f.Database...)
		for space, gaps := range f.Of {
			sum.Of[space] = append(sum.Of[space], gaps...)
			sum.Slowest[space] = append(sum.Slowest[space], f.Slowest[space]...)
		}
		sum.Held, sum.Lost, sum.Early = sum.Held+f.Held, sum.Lost+f.Lost, sum.Early+f.Early
		for text, n := range f.Errors {
			sum.Errors[text] += n
		}
		if len(r.Violations) > 0 {
			s.violated[name]++
		}
	}
	for _, v := range r.Violations {
		p.found = append(p.found, fmt.Sprintf("%s, seed %#x: %s", r.Kind, r.Seed, v))
	}
}

// Found are the violations, a line each, with the seeds of their rounds.
func (p *Report) Found() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.found)
}

// Fail notes a round that could not be run or judged.
func (p *Report) Fail(kind testenv.Kind, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failed = append(p.failed, string(kind)+": "+err.Error())
}

// Anew notes that a server had to be started anew, because a fault could not be undone
// or a round not be run.
func (p *Report) Anew(kind testenv.Kind) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.anew[kind]++
}

// Violations is how many there were.
func (p *Report) Violations() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.servers {
		for _, c := range s.spaces {
			n += c.Violations
		}
	}
	return n
}

// Failed are the rounds that could not be run or judged, with their causes.
func (p *Report) Failed() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.failed)
}

func (p *Report) server(kind testenv.Kind, name string) *server {
	for _, s := range p.servers {
		if s.kind == kind {
			return s
		}
	}
	s := &server{kind: kind, name: name, spaces: map[string]round.Count{}, faults: map[string]*round.FaultStats{}, violated: map[string]int{}, notRun: map[string]bool{}}
	p.servers = append(p.servers, s)
	return s
}
