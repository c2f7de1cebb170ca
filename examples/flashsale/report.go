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
	Freezes   []freeze        `json:"freezes"`
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
	fmt.Fprintf(w, "\nA shop has %d items. %d buyers, in %d processes, want one each at the same moment.\n", r.Items, r.Buyers, r.Processes)
	fmt.Fprintln(w, "To sell, the shop reads the stock and writes one less: right for one buyer at a time.")
	fmt.Fprintf(w, "Machine: %s\n", r.Machine)
	for _, s := range r.Servers {
		fmt.Fprintf(w, "%s %s: %s\n", s.Server, s.Version, s.Durability)
	}
}

func (r *report) printSales(w io.Writer) {
	t := table.Table{Left: 2}
	t.Add("server", "lock", "sold", "too many", "orders/s", "wait p50", "wait p99", "statements/order")
	for _, s := range r.Sales {
		name, p50, p99, statements := s.Strategy, s.WaitP50.String(), s.WaitP99.String(), fmt.Sprintf("%.1f", s.Statements)
		if s.Strategy == unlocked {
			name, p50, p99, statements = "no lock", "–", "–", "–"
		}
		t.Add(s.Server, name, s.Sold, s.Oversold, fmt.Sprintf("%.0f", s.PerSecond), p50, p99, statements)
	}
	fmt.Fprint(w, "\n1. The sale, without a lock and with each kind of lock\n\n")
	t.Print(w)
	fmt.Fprintf(w, `
lock              unique, version and for-update are UniqueInsert, VersionColumn and SelectForUpdate;
                  findAndModify is how MongoDB keeps a lock
sold, too many    orders in the shop's books, and how many of them are for items that were sold already
orders/s          until the last item is sold: one buyer after the other, each with two commits of the shop's own
wait              how long a buyer stands in the queue: half of them (p50), 99 of 100 of them (p99) not longer
statements/order  what the locks send to the database for each item sold. It can be below 1: buyers of the same
                  process hand the lock to each other in memory, and only then it goes to the next process
`)
}

func (r *report) printTakeovers(w io.Writer) {
	if len(r.Takeovers) == 0 {
		return
	}
	t := table.Table{Left: 2}
	t.Add("server", "lock", "TTL", "times", "median", "longest", "promised")
	for _, o := range r.Takeovers {
		t.Add(o.Server, o.Strategy, time.Duration(o.TTL), len(o.Trials), o.Median, o.Max, "at most "+o.Promised.String())
	}
	fmt.Fprint(w, "\n2. A holder is killed (kill -9). How long until another process has the lock?\n\n")
	t.Print(w)
	fmt.Fprint(w, `
TTL               how long a lock lasts that nobody renews; its holder renews it three times in that time
`)
	for _, o := range r.Takeovers {
		if o.Max > o.Promised {
			fmt.Fprintf(w, "%s %s took longer than promised: is the machine busy?\n", o.Server, o.Strategy)
		}
	}
}

func (r *report) printFreezes(w io.Writer) {
	if len(r.Freezes) == 0 {
		return
	}
	t := table.Table{Left: 4}
	t.Add("server", "lock", "plain transaction", "guarded transaction (InTx)")
	for _, f := range r.Freezes {
		t.Add(f.Server, f.Strategy, f.Plain, f.Guarded)
	}
	fmt.Fprint(w, `
3. A holder looks at its lock (all is well), freezes for longer than the TTL, wakes up and sets a price.
   Meanwhile another has the lock and has set a newer price. What becomes of the late write?

`)
	t.Print(w)
	if said := r.Freezes[0].Guarded.Error; said != "" {
		fmt.Fprintf(w, "\nrefused           %s\n", said)
	}
}

func (r *report) printEnd(w io.Writer) {
	fmt.Fprintln(w)
	for _, f := range r.Failures {
		fmt.Fprintln(w, "FAILED:", f)
	}
	if len(r.Failures) > 0 {
		return
	}
	fmt.Fprintf(w, `With a lock every item was sold exactly once, and every late guarded commit was refused. (%.0f s)

What next
  README.md#quickstart          the lock in your program, one short file
  docs/guides/two-terminals.md  what to see in two terminals
  docs/guides/guards.md         guarded transactions with sqlx, gorm, sqlc and others
  docs/guides/choosing.md       which of the locks above to take, which TTL
  examples/README.md            more programs: cron, a leader, a nightly batch, read locks, slots
  make demo ARGS=-help          the flags of this demo: other sizes, MariaDB, one lock alone, numbers as JSON
`, r.Seconds)
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
