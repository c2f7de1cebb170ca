// Package result keeps what was measured, as numbers with their names, so that
// tables, plots and checks are made of one thing.
package result

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// At says what was measured.
type At struct {
	Number string  `json:"number"` // N1 to N11, or the name of another measurement
	Server string  `json:"server"`
	Side   string  `json:"side"`
	Case   string  `json:"case,omitempty"` // "8 workers", "hold 20ms"
	X      float64 `json:"x,omitempty"`    // the number in Case, for plots
}

// Measurement is one value in each round.
type Measurement struct {
	At
	Metric string    `json:"metric"` // with its unit: "p50 ms"
	Values []float64 `json:"values"`
	Void   string    `json:"void,omitempty"` // why the values say nothing
}

// Median is the middle of the rounds.
func (m *Measurement) Median() float64 {
	v := slices.Sorted(slices.Values(m.Values))
	if len(v) == 0 {
		return 0
	}
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

// Spread is the smallest and the largest value.
func (m *Measurement) Spread() (least, most float64) {
	return slices.Min(m.Values), slices.Max(m.Values)
}

// Distribution is the quantiles 0, 1/200, … 1 of many values of all rounds.
type Distribution struct {
	At
	Metric    string    `json:"metric"`
	Count     int       `json:"count,omitempty"` // of the values
	Quantiles []float64 `json:"quantiles"`
}

// Server describes a server of the run.
type Server struct {
	Name       string `json:"name"`
	Version    string `json:"version"`
	Durability string `json:"durability"`
}

// Absent is a server or side that was not measured.
type Absent struct {
	Name   string `json:"name"`
	Reason string `json:"reason"`
}

// File is everything a run has found.
type File struct {
	Started       time.Time       `json:"started"`
	Seconds       float64         `json:"seconds"`
	Command       string          `json:"command"`
	Short         bool            `json:"short"`
	Partial       string          `json:"partial,omitempty"` // why the run ended before its time
	Rounds        int             `json:"rounds"`
	Machine       Machine         `json:"machine"`
	Servers       []Server        `json:"servers"`
	Absent        []Absent        `json:"absent,omitempty"`
	Notes         []string        `json:"notes,omitempty"`
	Failed        []string        `json:"failed,omitempty"`
	Measurements  []*Measurement  `json:"measurements"`
	Distributions []*Distribution `json:"distributions,omitempty"`

	Later map[string]*File `json:"-"` // the runs of numbers that were measured apart: see ReadAll

	mu sync.Mutex
}

// Machine is where it ran.
type Machine struct {
	System     string  `json:"system"`
	CPU        string  `json:"cpu"`
	Cores      int     `json:"cores"`
	MemoryGB   float64 `json:"memory_gb"`
	Go         string  `json:"go"`
	FsyncP50   float64 `json:"fsync_p50_ms"`
	FsyncP99   float64 `json:"fsync_p99_ms"`
	SlowSync   string  `json:"slow_sync,omitempty"` // how much slower the syncs of the servers were made
	LoadBefore string  `json:"load_before"`
	LoadAfter  string  `json:"load_after"`
	LoadMost   float64 `json:"load_most,omitempty"` // the largest seen between two numbers
}

// Busy says that more processes wanted the processors than there are; empty where
// that was not seen. Where load is not known nothing is said.
func (m Machine) Busy() string {
	var before float64
	_, _ = fmt.Sscan(m.LoadBefore, &before)
	switch cores := float64(m.Cores); {
	case before > cores:
		return fmt.Sprintf("load %.3g on %d cores before the run: other programs wanted the processors", before, m.Cores)
	case m.LoadMost > cores:
		return fmt.Sprintf("load up to %.3g on %d cores during the run, its own included", m.LoadMost, m.Cores)
	}
	return ""
}

// Add adds a round's value.
func (f *File) Add(at At, metric string, value float64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := f.find(at, metric)
	if m == nil {
		m = &Measurement{At: at, Metric: metric}
		f.Measurements = append(f.Measurements, m)
	}
	m.Values = append(m.Values, value)
}

// Void marks what was measured of a metric as worth nothing, for a reason.
func (f *File) Void(at At, metric, reason string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if m := f.find(at, metric); m != nil {
		m.Void = reason
	}
}

// Find is the measurement of that name, or nil. The X of at is not compared.
func (f *File) Find(at At, metric string) *Measurement {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.find(at, metric)
}

func (f *File) find(at At, metric string) *Measurement {
	for _, m := range f.Measurements {
		if m.Number == at.Number && m.Server == at.Server && m.Side == at.Side && m.Case == at.Case && m.Metric == metric {
			return m
		}
	}
	return nil
}

// Distribute adds a distribution of values, which it sorts.
func (f *File) Distribute(at At, metric string, values []float64) {
	if len(values) == 0 {
		return
	}
	slices.Sort(values)
	d := &Distribution{At: at, Metric: metric, Count: len(values)}
	for i := range 201 {
		d.Quantiles = append(d.Quantiles, values[(len(values)-1)*i/200])
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.Distributions = append(f.Distributions, d)
}

// Note adds a sentence for the report, once.
func (f *File) Note(text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !slices.Contains(f.Notes, text) {
		f.Notes = append(f.Notes, text)
	}
}

// Fail notes what could not be measured.
func (f *File) Fail(text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.Failed = append(f.Failed, text)
}

// Leave notes what was not measured, once.
func (f *File) Leave(name, reason string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if a := (Absent{name, reason}); !slices.Contains(f.Absent, a) {
		f.Absent = append(f.Absent, a)
	}
}

// Write writes f as JSON.
func (f *File) Write(name string) error {
	b, err := json.MarshalIndent(f, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(name, append(b, '\n'), 0o644)
}

// ReadAll reads files of several runs as one: of a number that several have, what the last
// measured. Machine and servers are those of the first.
func ReadAll(names []string) (*File, error) {
	var all *File
	for _, name := range names {
		f, err := Read(name)
		if err != nil {
			return nil, err
		}
		if all == nil {
			all = f
			continue
		}
		measured := map[string]bool{}
		for _, m := range f.Measurements {
			measured[m.Number] = true
		}
		all.Measurements = append(slices.DeleteFunc(all.Measurements, func(m *Measurement) bool { return measured[m.Number] }), f.Measurements...)
		all.Distributions = append(slices.DeleteFunc(all.Distributions, func(d *Distribution) bool { return measured[d.Number] }), f.Distributions...)
		if all.Later == nil {
			all.Later = map[string]*File{}
		}
		for number := range measured {
			all.Later[number] = f
		}
		about := func(text string) bool {
			number, _, _ := strings.Cut(text, ":")
			return measured[number]
		}
		all.Notes = append(slices.DeleteFunc(all.Notes, about), f.Notes...)
		all.Failed = append(slices.DeleteFunc(all.Failed, about), f.Failed...)
	}
	return all, nil
}

// Of is the run that measured a number.
func (f *File) Of(number string) *File {
	if later := f.Later[number]; later != nil {
		return later
	}
	return f
}

// Read reads what Write wrote.
func Read(name string) (*File, error) {
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	f := &File{}
	return f, json.Unmarshal(b, f)
}
