// Package benchcli is the command bench: it measures rowlock, the numbers that it must
// reach, for every strategy and server, in one run with what they are compared with.
// docs/performance.md tells what the numbers mean. A program that registers locks of its
// own with package own and calls Main is the same command with these locks beside the rest.
//
//	make bench               everything; about an hour
//	make bench SHORT=1       the same with little of each, in a few minutes
//	make bench ARGS="-only N1,N4 -servers mysql"
//	make bench ARGS="-processes 4 -workers 8 -keys 10 -hold 5ms -rtt 20ms"   a contest of your choice
//
// It runs on the servers that ROWLOCK_TEST_MYSQL_DSN, ROWLOCK_TEST_MARIADB_DSN and
// ROWLOCK_TEST_MONGO_URI name, in a database of its own that it removes at the end;
// `make bench` starts servers where these name none. A run that is interrupted (SIGINT,
// SIGTERM) writes what it has, marked as partial; a second signal ends it at once.
package benchcli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rowlock/rowlock/dev/bench/internal/fleet"
	"github.com/rowlock/rowlock/dev/bench/internal/lab"
	"github.com/rowlock/rowlock/dev/bench/internal/number"
	"github.com/rowlock/rowlock/dev/bench/internal/plots"
	"github.com/rowlock/rowlock/dev/bench/internal/report"
	"github.com/rowlock/rowlock/dev/bench/internal/result"
	"github.com/rowlock/rowlock/dev/bench/internal/side"
	"github.com/rowlock/rowlock/dev/bench/internal/target"
)

// options are the flags.
type options struct {
	short, peers, check bool
	only, servers       []string
	rounds              int
	workers             []int
	keep                time.Duration
	out, docs, redraw   string
	from, disks         []string
	contest             *number.Contest // of the caller's choice, instead of the numbers
}

// Main runs the command with the program's arguments, and ends the program where it fails.
func Main() {
	fleet.Run(number.Roles)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends it at once
	o, err := parse(os.Args[1:])
	if err == nil {
		err = run(ctx, o)
	}
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func parse(args []string) (o options, err error) {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.BoolVar(&o.short, "short", false, "little of everything, in a few minutes")
	flags.BoolVar(&o.peers, "peers", true, "measure Redis, etcd and ZooKeeper too, where their servers can be had")
	flags.BoolVar(&o.check, "check", false, "fail if a ratio is far below its number")
	flags.IntVar(&o.rounds, "rounds", 0, "rounds of each comparison (default 3, with -short 1)")
	flags.DurationVar(&o.keep, "keep", 0, "how long N5 keeps its leases, up to 10m (default 1m, with -short 6s)")
	flags.StringVar(&o.out, "out", filepath.Join("dev", "bench", "out"), "folder for report.md, results.json and plots")
	flags.StringVar(&o.docs, "docs", "", "folder of performance.md, whose tables and figures are written anew; with -only those of these numbers")
	from := flags.String("from", "", "measure nothing: take the results.json of earlier runs; of a number that several have, that of the last")
	flags.StringVar(&o.redraw, "redraw", "", "measure nothing: draw the figures of performance.md in this folder again, from the tables of dev/bench/results")
	disks := flags.String("disks", "", "measure nothing: one table of these results.json, of runs with different ROWLOCK_TEST_SYNC")
	workers := flags.String("workers", "", "N2: the numbers of workers (default 1,8,32,128, with -short 8,128); of a contest: the callers in each process (default 8)")
	var c number.Contest
	flags.IntVar(&c.Processes, "processes", 4, "a contest: how many processes; this and the next five flags measure a contest of your choice instead of the numbers")
	flags.IntVar(&c.Keys, "keys", 1, "a contest: each hold is of one of so many keys, by chance")
	flags.DurationVar(&c.Hold, "hold", 5*time.Millisecond, "a contest: how long a key is held")
	flags.DurationVar(&c.TTL, "ttl", 30*time.Second, "a contest: the TTL of the library's leases")
	flags.DurationVar(&c.Window, "window", 5*time.Second, "a contest: how long each side runs in a round")
	rtts := flags.String("rtt", "0", "a contest: round trips to the databases, for example 1ms,20ms,100ms, by a delaying proxy")
	only := flags.String("only", "", "the numbers to measure, for example N1,N4; default all: "+strings.Join(names(), ","))
	servers := flags.String("servers", strings.Join(lab.Databases, ","), "the databases")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if o.keep > 10*time.Minute || o.keep < 0 {
		return o, fmt.Errorf("-keep %v: at most 10m", o.keep)
	}
	if *disks != "" {
		o.disks = strings.Split(*disks, ",")
	}
	if *from != "" {
		o.from = strings.Split(*from, ",")
	}
	for word := range strings.SplitSeq(*workers, ",") {
		if word == "" {
			continue
		}
		n, err := strconv.Atoi(word)
		if err != nil || n < 1 || n > side.Keys {
			return o, fmt.Errorf("-workers: %q is no number from 1 to %d", word, side.Keys)
		}
		o.workers = append(o.workers, n)
	}
	flags.Visit(func(f *flag.Flag) {
		if slices.Contains([]string{"processes", "keys", "hold", "ttl", "window", "rtt"}, f.Name) {
			o.contest = &c
		}
	})
	if o.contest != nil {
		if o.contest.Workers = o.workers; len(o.workers) == 0 {
			o.contest.Workers = []int{8}
		}
		if err := c.Parse(*rtts); err != nil {
			return o, err
		}
		if *only != "" || o.docs != "" {
			return o, errors.New("-only and -docs are for the numbers, and this is a contest of your choice: leave them out, or -processes, -keys, -hold, -ttl, -window and -rtt")
		}
	}
	if o.only, err = choose("-only", *only, names()); err != nil {
		return o, err
	}
	o.servers, err = choose("-servers", *servers, lab.Databases)
	return o, err
}

// choose splits a list whose words must be among those known.
func choose(flag, list string, known []string) (chosen []string, err error) {
	for word := range strings.SplitSeq(list, ",") {
		if word = strings.TrimSpace(word); word == "" {
			continue
		}
		if !slices.Contains(known, word) {
			return nil, fmt.Errorf("%s: no %q: use some of %s", flag, word, strings.Join(known, ","))
		}
		chosen = append(chosen, word)
	}
	return chosen, nil
}

func names() (list []string) {
	for _, n := range number.Numbers {
		list = append(list, n.Name)
	}
	return list
}

func run(ctx context.Context, o options) (err error) {
	if len(o.disks) > 0 {
		return compareDisks(o)
	}
	if o.redraw != "" {
		return redraw(o.redraw)
	}
	var f *result.File
	if len(o.from) > 0 {
		f, err = result.ReadAll(o.from)
	} else {
		f, err = measureAll(ctx, o)
	}
	if f == nil || len(f.Measurements) == 0 && err != nil {
		return err
	}
	if f.Partial != "" && o.docs != "" {
		o.docs = "" // a page of half a run is worse than the page that is there
		err = errors.Join(err, errors.New("-docs: nothing is written there: the run is partial"))
	}
	if e := write(f, o); e != nil {
		return errors.Join(err, e)
	}
	if len(f.Failed) > 0 {
		err = errors.Join(err, fmt.Errorf("could not be measured:\n  %s", strings.Join(f.Failed, "\n  ")))
	}
	if o.check {
		err = errors.Join(err, target.Check(f))
	}
	return err
}

// redraw draws the figures of the page in a folder again.
func redraw(docs string) error {
	f, err := report.Read(results(docs))
	if err != nil {
		return err
	}
	figures, err := plots.Write(f, filepath.Join(docs, "img"))
	if err != nil {
		return err
	}
	return report.DocsFigures(filepath.Join(docs, "performance.md"), figures)
}

// results is the folder with the tables of every number.
func results(docs string) string { return filepath.Join(docs, "..", "dev", "bench", "results") }

// compareDisks shows the table of several runs, and writes it into the page.
func compareDisks(o options) error {
	var runs []*result.File
	for _, name := range o.disks {
		f, err := result.Read(name)
		if err != nil {
			return err
		}
		runs = append(runs, f)
	}
	t := report.Disks(runs)
	fmt.Print(t.Text())
	if o.docs == "" {
		return nil
	}
	return report.DocsDisks(t, results(o.docs))
}

// explained is how a report in a folder links to the page that explains it: by its
// path, where this is run in a clone.
func explained(out string) string {
	page, err := filepath.Abs(filepath.Join("docs", "performance.md"))
	if err == nil {
		_, err = os.Stat(page)
	}
	if err == nil {
		out, err = filepath.Abs(out)
	}
	if err == nil {
		page, err = filepath.Rel(out, page)
	}
	if err != nil {
		return report.Explained
	}
	return filepath.ToSlash(page)
}

// write writes the files and shows how the numbers came out.
func write(f *result.File, o options) error {
	figures, err := plots.Write(f, o.out)
	if err != nil {
		return err
	}
	if err := f.Write(filepath.Join(o.out, "results.json")); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(o.out, "report.md"), []byte(report.Page(f, figures, explained(o.out))), 0o644); err != nil {
		return err
	}
	if o.contest == nil {
		fmt.Printf("\nWhat misses its number:\n%s", report.MissedTable(f).Text())
		fmt.Printf("\n%s\n%s", report.SummaryTitle, report.SummaryTable(f).Text())
	}
	if busy := f.Machine.Busy(); busy != "" {
		fmt.Printf("\nThe machine was busy: %s.\n", busy)
	}
	fmt.Printf("\nreport.md, with all tables and the meaning of each word, results.json and plots are in %s.\n", o.out)
	if o.docs == "" {
		return nil
	}
	if _, err := plots.Write(f, filepath.Join(o.docs, "img")); err != nil {
		return err
	}
	return report.Docs(f, filepath.Join(o.docs, "performance.md"), results(o.docs), figures, len(o.only) == 0)
}
