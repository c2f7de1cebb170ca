// Command verify proves the promises of rowlock: clients use locks on real servers
// while networks, processes, servers and clocks fail around them, each call is
// recorded with its reply, and checkers look for what was promised and did not hold.
// docs/quality/rounds.md tells which faults there are and what came of them.
//
//	make verify               every server, ten minutes each
//	make verify SHORT=1       little of it in less than five minutes, and no cluster of MySQL
//	make verify ARGS="-servers mysql -duration 1h"
//
//	verify [run] [flags]      rounds of faults (verify run -help)
//	verify check FOLDER       judges a history that was kept
//	verify faults             the table of faults (-docs docs: writes it into quality/rounds.md)
//
// It starts servers of its own (see package testenv). The exit code is 1 if anything
// was violated or could not be run.
package main

import (
	"cmp"
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

	"github.com/rowlock/rowlock/dev/testenv"
	"github.com/rowlock/rowlock/dev/verify/fault"
	"github.com/rowlock/rowlock/dev/verify/workload"
)

func main() {
	workload.Main()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := command(ctx, os.Args[1:])
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "verify:", err)
		os.Exit(1)
	}
}

func command(ctx context.Context, args []string) error {
	name := "run"
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		name, args = args[0], args[1:]
	}
	switch {
	case name == "run":
		p, err := parse(args)
		if err != nil {
			return err
		}
		return run(ctx, p)
	case name == "check" && len(args) == 1:
		return judge(args[0])
	case name == "faults" && len(args) == 0:
		fmt.Print(fault.Markdown())
		return nil
	case name == "faults" && len(args) == 2 && args[0] == "-docs":
		return document(filepath.Join(args[1], docsPage), docsFaults, fault.Markdown())
	}
	return errors.New("use: verify [run] [flags], verify check FOLDER, or verify faults")
}

// plan is what a run is to do.
type plan struct {
	kinds    []testenv.Kind
	faults   []string      // all if empty
	duration time.Duration // of all rounds of one server
	round    time.Duration // the length of one, without coming to rest
	rounds   int           // of each server; 0: as many as fit
	seed     uint64        // of the first round; the next ones count on
	parallel int           // servers at once
	lines    int
	gap      time.Duration
	ttl      time.Duration // 0: each round draws its own
	hot      int
	light    int
	modes    int
	bug      string
	other    string
	keep     bool
	out      string
	docs     string
}

// kinds are the servers of a run that names none, and those that it can name beside them. On MySQLAsync violations are
// what is to be found.
var (
	kinds = []testenv.Kind{testenv.MySQL, testenv.MariaDB, testenv.Mongo, testenv.Mongo3, testenv.MySQLSemiSync}
	more  = []testenv.Kind{testenv.MySQLGroup3, testenv.MariaDBGalera3, testenv.MySQLAsync}
)

func parse(args []string) (p plan, err error) {
	flags := flag.NewFlagSet("verify run", flag.ContinueOnError)
	servers := flags.String("servers", "", "the servers; also "+join(more)+" (default "+join(kinds)+"; with -short no cluster of MySQL, whose rounds take half a minute more than their faults)")
	faults := flags.String("faults", "", "only these faults (see verify faults); none: no faults")
	seed := flags.String("seed", "", "of the first round, as a round shows it (default: another one each time)")
	short := flags.Bool("short", false, "little of everything, in less than five minutes")
	flags.DurationVar(&p.duration, "duration", 0, "for each server (default 10m, with -short 1m)")
	flags.DurationVar(&p.round, "round", 0, "faults of one round (default 1m, with -short 15s)")
	flags.IntVar(&p.rounds, "rounds", 0, "so many rounds for each server, however long they take")
	flags.IntVar(&p.parallel, "parallel", 0, "so many servers at once (default 1, with -short 2)")
	flags.IntVar(&p.lines, "lines", 3, "so many faults at once, at most: each round draws its number")
	flags.DurationVar(&p.gap, "gap", 500*time.Millisecond, "between the end of a fault and the next one in its place, at most")
	flags.DurationVar(&p.ttl, "ttl", 0, "of the leases (default: each round draws one of 1.5 to 3 s)")
	flags.IntVar(&p.hot, "hot", 8, "workers of each client and space that fight for the hot keys")
	flags.IntVar(&p.light, "light", 24, "workers of each client and space with keys of their own")
	flags.IntVar(&p.modes, "modes", 4, "workers of each client and space that want keys in several modes; half as many want groups, as many keys in order, and one leads")
	flags.StringVar(&p.bug, "break", "", "put a deliberate bug before the stores, which must be found: "+strings.Join(workload.Bugs, ", "))
	flags.StringVar(&p.other, "other", "", "another build of this program, of an older commit for example, that plays one of the clients: what an upgrade looks like")
	flags.BoolVar(&p.keep, "keep", false, "keep the histories of clean rounds too")
	flags.StringVar(&p.out, "out", filepath.Join("dev", "verify", "out"), "folder for report.md and the histories")
	flags.StringVar(&p.docs, "docs", "", "folder of quality/rounds.md and quality/faults.md, which get the results")
	if err := flags.Parse(args); err != nil {
		return p, err
	}
	if flags.NArg() > 0 {
		return p, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	usual := plan{duration: 10 * time.Minute, round: time.Minute, parallel: 1}
	if *short {
		usual = plan{duration: time.Minute, round: 15 * time.Second, parallel: 2}
	}
	p.duration, p.round, p.parallel = cmp.Or(p.duration, usual.duration), cmp.Or(p.round, usual.round), cmp.Or(p.parallel, usual.parallel)
	p.seed = uint64(time.Now().UnixNano()) >> 10 & 0xffffffff
	if *seed != "" {
		if p.seed, err = strconv.ParseUint(*seed, 0, 63); err != nil {
			return p, fmt.Errorf("-seed: %w", err)
		}
	}
	if p.other != "" {
		if p.other, err = filepath.Abs(p.other); err != nil {
			return p, fmt.Errorf("-other: %w", err)
		}
		if _, err := os.Stat(p.other); err != nil {
			return p, fmt.Errorf("-other: %w: build it by `git worktree add OLD COMMIT && cd OLD/dev/verify && go build -o other .`", err)
		}
	}
	usually := kinds
	if *short {
		usually = slices.DeleteFunc(slices.Clone(kinds), testenv.Kind.Clustered)
	}
	for word := range strings.SplitSeq(cmp.Or(*servers, join(usually)), ",") {
		kind, err := testenv.ParseKind(word)
		if known := slices.Concat(kinds, more); err != nil || !slices.Contains(known, kind) {
			return p, fmt.Errorf("-servers: no %q: use some of %s", word, join(known))
		}
		p.kinds = append(p.kinds, kind)
	}
	if *faults != "" {
		p.faults = strings.Split(*faults, ",")
	}
	p.parallel, p.lines = max(1, p.parallel), max(1, p.lines)
	if p.gap <= 0 || p.round <= 0 {
		return p, errors.New("-gap and -round must be above 0")
	}
	return p, nil
}

func join(kinds []testenv.Kind) string {
	var names []string
	for _, k := range kinds {
		names = append(names, string(k))
	}
	return strings.Join(names, ",")
}

// choose are the faults of a kind that the plan wants.
func (p plan) choose(kind testenv.Kind) (list []fault.Fault, err error) {
	known := fault.All()
	for _, name := range p.faults {
		if name != none && !slices.ContainsFunc(known, func(f fault.Fault) bool { return f.Name == name }) {
			return nil, fmt.Errorf("-faults: no %q: see verify faults", name)
		}
	}
	for _, f := range fault.For(kind) {
		if len(p.faults) == 0 || slices.Contains(p.faults, f.Name) {
			list = append(list, f)
		}
	}
	return list, nil
}

const none = "none"
