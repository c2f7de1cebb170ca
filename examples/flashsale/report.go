package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"time"

	"github.com/rowlock/rowlock/examples/internal/servers"
	"github.com/rowlock/rowlock/examples/internal/table"
)

// report is everything that was measured; -json writes it to a file.
type report struct {
	Machine   string          `json:"machine"`
	Servers   []servers.About `json:"servers"`
	Buyers    int             `json:"buyers"`
	Items     int             `json:"items"`
	Processes int             `json:"processes"`
	Sales     []sale          `json:"sales"`
	Takeovers []takeover      `json:"takeovers"`
	Failures  []string        `json:"failures"`
	Seconds   float64         `json:"seconds"`
}

// machine describes where we are.
func machine() string {
	return fmt.Sprintf("%d cores, %s/%s, %s", runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version())
}

// milliseconds is a time that JSON shows as a number of milliseconds.
type milliseconds time.Duration

func (m milliseconds) MarshalJSON() ([]byte, error) {
	return fmt.Appendf(nil, "%.3f", float64(m)/float64(time.Millisecond)), nil
}

func (m milliseconds) String() string {
	switch d := time.Duration(m); {
	case d >= time.Second:
		return d.Round(10 * time.Millisecond).String()
	case d >= 10*time.Millisecond:
		return d.Round(time.Millisecond).String()
	default:
		return d.Round(10 * time.Microsecond).String()
	}
}

func (r *report) printHead(w io.Writer) {
	fmt.Fprintf(w, "%d buyers in %d processes want %d items, all of one kind.\n", r.Buyers, r.Processes, r.Items)
	fmt.Fprintf(w, "Machine: %s\n", r.Machine)
	for _, s := range r.Servers {
		fmt.Fprintf(w, "%s %s: %s\n", s.Server, s.Version, s.Durability)
	}
}

func (r *report) printSales(w io.Writer) {
	t := table.Table{Left: 2}
	t.Add("server", "strategy", "sold", "oversold", "orders/s", "wait p50", "wait p99", "statements/order", "errors")
	for _, s := range r.Sales {
		name, p50, p99, statements := s.Strategy, s.WaitP50.String(), s.WaitP99.String(), fmt.Sprintf("%.1f", s.Statements)
		if s.Strategy == unlocked {
			name, p50, p99, statements = "no lock", "–", "–", "–"
		}
		t.Add(s.Server, name, s.Sold, s.Oversold, fmt.Sprintf("%.0f", s.PerSecond), p50, p99, statements, s.Errors)
	}
	fmt.Fprintln(w)
	t.Print(w)
	fmt.Fprintln(w, "wait: of every buyer, those who found the shelf empty included; statements: the lock store's, per item sold")
}

func (r *report) printTakeovers(w io.Writer) {
	if len(r.Takeovers) == 0 {
		return
	}
	t := table.Table{Left: 2}
	t.Add("server", "strategy", "TTL", "trials", "median", "max", "promised")
	for _, o := range r.Takeovers {
		t.Add(o.Server, o.Strategy, time.Duration(o.TTL), len(o.Trials), o.Median, o.Max, o.Promised)
	}
	fmt.Fprintln(w, "\nThe holder is killed (kill -9). Until a waiter in another process has the lock:")
	t.Print(w)
	for _, o := range r.Takeovers {
		if o.Max > o.Promised {
			fmt.Fprintf(w, "%s %s took longer than promised: is the machine busy?\n", o.Server, o.Strategy)
		}
	}
}

func (r *report) printEnd(w io.Writer) {
	fmt.Fprintln(w)
	for _, f := range r.Failures {
		fmt.Fprintln(w, "FAILED:", f)
	}
	if len(r.Failures) == 0 {
		fmt.Fprintf(w, "With a lock every item was sold exactly once. (%.0f s)\n", r.Seconds)
	}
}

func (r *report) writeJSON(name string) error {
	data, err := json.MarshalIndent(r, "", "  ")
	if err == nil {
		err = os.WriteFile(name, append(data, '\n'), 0o644)
	}
	if err != nil {
		return fmt.Errorf("write the result: %w", err)
	}
	return nil
}
