// Command bench measures rowlock: the numbers that it must reach, for every strategy
// and server, in one run with what they are compared with. docs/performance.md tells
// what the numbers mean.
//
//	make bench               everything; about half an hour
//	make bench SHORT=1       the same with little of each, in a few minutes
//	make bench ARGS="-only N1,N4 -servers mysql"
//
// It runs on the servers that ROWLOCK_TEST_MYSQL_DSN, ROWLOCK_TEST_MARIADB_DSN and
// ROWLOCK_TEST_MONGO_URI name, in a database of its own that it removes at the end;
// `make bench` starts servers where these name none. A run that is interrupted (SIGINT,
// SIGTERM) writes what it has, marked as partial; a second signal ends it at once.
package main

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

	"github.com/rowlock/rowlock/bench/internal/fleet"
	"github.com/rowlock/rowlock/bench/internal/lab"
	"github.com/rowlock/rowlock/bench/internal/number"
	"github.com/rowlock/rowlock/bench/internal/plots"
	"github.com/rowlock/rowlock/bench/internal/report"
	"github.com/rowlock/rowlock/bench/internal/result"
	"github.com/rowlock/rowlock/bench/internal/side"
	"github.com/rowlock/rowlock/bench/internal/target"
)

// options are the flags.
type options struct {
	short, peers, check bool
	only, servers       []string
	rounds              int
	workers             []int
	keep                time.Duration
	out, docs, from     string
	disks               []string
}

func main() {
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
	flags.StringVar(&o.out, "out", filepath.Join("bench", "out"), "folder for report.md, results.json and plots")
	flags.StringVar(&o.docs, "docs", "", "folder of performance.md, whose tables and figures are written anew; with -only those of these numbers")
	flags.StringVar(&o.from, "from", "", "measure nothing: take the results.json of an earlier run")
	disks := flags.String("disks", "", "measure nothing: one table of these results.json, of runs with different ROWLOCK_TEST_SYNC")
	workers := flags.String("workers", "", "N2: the numbers of workers (default 1,8,32,128, with -short 8,128)")
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
	var f *result.File
	if o.from != "" {
		f, err = result.Read(o.from)
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
	return report.DocsDisks(t, filepath.Join(o.docs, "performance.md"))
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
	fmt.Printf("\nThe numbers:\n%s\n%s, results.json and plots are in %s.\n", report.TargetTable(f).Text(), "report.md", o.out)
	if o.docs == "" {
		return nil
	}
	if _, err := plots.Write(f, filepath.Join(o.docs, "img")); err != nil {
		return err
	}
	for _, g := range figures { // the page shows the SVG
		if err := os.Remove(filepath.Join(o.docs, "img", g.Name+".png")); err != nil {
			return err
		}
	}
	return report.Docs(f, filepath.Join(o.docs, "performance.md"), figures, len(o.only) == 0)
}
