package benchcli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/rowlock/rowlock/dev/bench/internal/lab"
	"github.com/rowlock/rowlock/dev/bench/internal/measure"
	"github.com/rowlock/rowlock/dev/bench/internal/number"
	"github.com/rowlock/rowlock/dev/bench/internal/report"
	"github.com/rowlock/rowlock/dev/bench/internal/result"
)

// measureAll opens the servers and measures what is asked for. When it is interrupted,
// or a number fails as a whole, it returns what it has with the error, and the file
// says why it is partial.
func measureAll(ctx context.Context, o options) (f *result.File, err error) {
	p := newProgress()
	defer p.clear()
	plan := number.Full
	if o.short {
		plan = number.Short
	}
	if o.rounds > 0 {
		plan.Rounds = o.rounds
	}
	if len(o.workers) > 0 {
		plan.Workers, plan.Peers = o.workers, o.workers
	}
	if o.keep > 0 {
		plan.Keep = o.keep
	}
	f = &result.File{Started: time.Now(), Short: o.short, Rounds: plan.Rounds, Machine: measure.Machine(),
		Command: strings.Join(append([]string{"bench"}, os.Args[1:]...), " ")}
	f.Machine.LoadBefore = measure.Load()
	if o.peers && f.Machine.SlowSync != "" {
		o.peers = false
		f.Leave("peers", "ROWLOCK_TEST_SYNC does not slow the syncs of their servers")
	}
	l, err := lab.Open(ctx, o.servers, o.peers, func(text string) { p.print("  " + text) })
	if err != nil {
		return nil, err
	}
	defer func() {
		if e := l.Close(); e != nil && ctx.Err() == nil {
			err = errors.Join(err, e)
		} // else the signal has reached the servers too
	}()
	for _, s := range l.All() {
		f.Servers = append(f.Servers, result.Server{Name: s.Name, Version: s.Version, Durability: s.Durability})
	}
	for _, a := range l.Absent {
		f.Leave(a.Name, a.Reason)
	}
	b := &number.Bench{Lab: l, Plan: plan, File: f, Say: p.say, Contest: o.contest}
	numbers := number.Numbers
	if o.contest != nil {
		numbers = []number.Number{number.OfContest}
	}
	if busy := f.Machine.Busy(); busy != "" {
		p.print("The machine is busy: " + busy + ". Times and ratios will be those of a busy machine.")
	}
	for _, n := range numbers {
		if len(o.only) > 0 && !slices.Contains(o.only, n.Name) {
			continue
		}
		begin := time.Now()
		err = n.Run(b, ctx)
		f.Machine.LoadMost = max(f.Machine.LoadMost, measure.LoadNow())
		if ctx.Err() != nil {
			f.Partial = fmt.Sprintf("it was interrupted in %s, %.0f s after its start", n.Name, time.Since(f.Started).Seconds())
			err = errors.New("interrupted: the files have what was measured until then")
			break
		}
		if err != nil {
			f.Partial = fmt.Sprintf("it ended in %s: %v", n.Name, err)
			err = fmt.Errorf("%s: %w", n.Name, err)
			break
		}
		p.print(fmt.Sprintf("\n%s: %s (%.0f s)\n%s", n.Name, n.Title, time.Since(begin).Seconds(), report.Of(f, n.Name).Text()))
	}
	f.Seconds = time.Since(f.Started).Seconds()
	f.Machine.LoadAfter = measure.Load()
	return f, err
}

// progress is a line on the terminal that says what is measured now.
type progress struct {
	live bool // standard error is a terminal: the line is written over
	last time.Time
	mark string
}

func newProgress() *progress {
	info, err := os.Stderr.Stat()
	return &progress{live: err == nil && info.Mode()&os.ModeCharDevice != 0}
}

// say shows what is measured now. In a log, where lines stay, it is brief.
func (p *progress) say(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	if p.live {
		fmt.Fprintf(os.Stderr, "\r\x1b[K%s", line)
		return
	}
	mark, _, _ := strings.Cut(line, " ")
	if mark != p.mark || time.Since(p.last) > 10*time.Second {
		p.mark, p.last = mark, time.Now()
		fmt.Fprintln(os.Stderr, "…", line)
	}
}

func (p *progress) clear() {
	if p.live {
		fmt.Fprint(os.Stderr, "\r\x1b[K")
	}
}

// print prints what stays.
func (p *progress) print(text string) {
	p.clear()
	fmt.Println(strings.TrimRight(text, "\n"))
}
