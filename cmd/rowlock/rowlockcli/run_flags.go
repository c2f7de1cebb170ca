package rowlockcli

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rowlock/rowlock/cmd/rowlock/internal/guard"
	"github.com/rowlock/rowlock/driver"
)

// runFlags are those of run.
type runFlags struct {
	noWait    bool
	wait      duration
	waitSet   bool
	conflict  int
	skip      bool
	ttl       duration
	killAfter duration
	minHold   duration
	maxHold   duration
	owner     string
	leftovers string
	shell     bool
	onLost    string
	passDB    bool

	shared bool
	slots  int // 0: none
	fair   bool

	runID, mark string
	period      duration
	ranCode     int
	http        string
	metricsFile string
}

// add adds them to a command.
func (f *runFlags) add(set *pflag.FlagSet) {
	f.ttl, f.killAfter = duration(time.Minute), duration(10*time.Second)
	set.BoolVarP(&f.noWait, "no-wait", "n", false, "do not wait if the key is held")
	set.VarP(&f.wait, "wait", "w", "wait at most so long; 0: as -n (default: for as long as it takes)")
	set.IntVarP(&f.conflict, "conflict-exit-code", "E", exitHeld, "the exit `code` when the key was not got, because it is held")
	set.BoolVarP(&f.skip, "skip-ok", "x", false, "not to get the key is fine: exit code 0, and nothing is said; without -w do not wait. For cron")
	set.BoolVarP(&f.shared, "shared", "s", false, "share the key with others that have this option: nobody has it alone meanwhile")
	set.IntVar(&f.slots, "slots", 0, "at most so `many` commands at a time; ROWLOCK_SLOT is the number of this one, from 0")
	set.BoolVar(&f.fair, "fair", false, "those who wait are served in the order in which they came; all callers of the key must have it")
	set.Var(&f.ttl, "ttl", "how long the key stays taken after a crash; renewed while the command runs")
	set.VarP(&f.killAfter, "kill-after", "k", "how long the command has between TERM and KILL, at most a third of --ttl; 0: KILL at once")
	set.Var(&f.minHold, "min-hold", "keep the key taken for so long, however short the command is")
	set.Var(&f.maxHold, "max-hold", "end the command after so long; at least --ttl")
	set.StringVar(&f.owner, "owner", "", "`who` has the key, for people (default host:pid)")
	set.StringVar(&f.leftovers, "leftovers", string(guard.Wait), "`what` becomes of processes that the command leaves behind: wait for them, kill them, leave them")
	set.BoolVarP(&f.shell, "shell", "c", false, "the one argument after KEY is given to /bin/sh -c")
	set.StringVar(&f.onLost, "on-lost", "term", "`how` the command is ended when the lease is lost: term (and kill), or kill")
	set.BoolVar(&f.passDB, "pass-db", false, "leave ROWLOCK_DB and ROWLOCK_PASSWORD in the environment of the command")
	set.StringVar(&f.runID, "run", "", "make the run with this `ID` once: not if it has its mark")
	set.Var(&f.period, "period", "make one run in each period: not if one began less than half of it ago, by the database's clock")
	set.StringVar(&f.mark, "mark", "success", "`when` a run of --run or --period gets its mark: at its start, or after its success")
	set.IntVar(&f.ranCode, "ran-exit-code", 0, "the exit `code` when the run was made before")
	set.StringVar(&f.http, "http", "", "listen on this `address`: /healthz (200 while the command runs), /leader, /metrics")
	set.StringVar(&f.metricsFile, "metrics-file", "", "write metrics to this `file`, for the textfile collector of node_exporter")
}

// check refuses what cannot be meant, and fills in what follows from other flags.
func (f *runFlags) check(cmd *cobra.Command) error {
	set := cmd.Flags()
	f.waitSet = set.Changed("wait")
	if f.skip {
		if set.Changed("conflict-exit-code") {
			return invalid("-x makes the exit code 0 when the key was not got: leave out -E")
		}
		f.noWait, f.conflict = f.noWait || !f.waitSet, 0
	}
	if f.noWait && f.waitSet && f.wait > 0 {
		return invalid("-n and -w %s say different things: use one", time.Duration(f.wait))
	}
	if f.waitSet && f.wait == 0 {
		f.noWait = true
	}
	if f.conflict < 0 || f.conflict > 255 {
		return invalid("-E %d: an exit code is from 0 to 255", f.conflict)
	}
	switch guard.Leftovers(f.leftovers) {
	case guard.Wait, guard.Kill, guard.Leave:
	default:
		return invalid("--leftovers %s: use wait, kill or leave", f.leftovers)
	}
	if err := f.checkMode(set); err != nil {
		return err
	}
	switch {
	case f.mark != "success" && f.mark != "start":
		return invalid("--mark %s: use success or start", f.mark)
	case set.Changed("mark") && !f.marks():
		return invalid("--mark says when a run is marked: it needs --run or --period")
	case f.runID != "" && f.period > 0:
		return invalid("--run and --period both name the run: use one")
	case len(f.runID) > 255:
		return invalid("the ID of --run has %d bytes: use 1 to 255", len(f.runID))
	case set.Changed("run") && f.runID == "":
		return invalid("the ID of --run is empty: use 1 to 255 bytes, for example a date")
	case set.Changed("period") && f.period < duration(time.Second):
		return invalid("--period %s: use at least 1s", time.Duration(f.period))
	case f.ranCode < 0 || f.ranCode > 255:
		return invalid("--ran-exit-code %d: an exit code is from 0 to 255", f.ranCode)
	}
	if f.onLost != "term" && f.onLost != "kill" {
		return invalid("--on-lost %s: use term or kill", f.onLost)
	}
	if f.ttl < duration(2*time.Second) {
		return invalid("--ttl %s: use at least 2s: the command has to be ended before it is over", time.Duration(f.ttl))
	}
	if f.killAfter > f.ttl/3 {
		if set.Changed("kill-after") {
			return invalid("--kill-after %s is more than a third of --ttl %s: nothing would be left to renew the lease in; use at most %s, or a longer --ttl",
				time.Duration(f.killAfter), time.Duration(f.ttl), time.Duration(f.ttl/3))
		}
		f.killAfter = f.ttl / 3
	}
	return nil
}

// checkMode refuses what does not go with --shared and --slots.
func (f *runFlags) checkMode(set *pflag.FlagSet) error {
	switch {
	case set.Changed("slots") && (f.slots < 1 || f.slots > driver.MaxSlots):
		return invalid("--slots %d: use 1 to %d", f.slots, driver.MaxSlots)
	case f.shared && f.slots > 0:
		return invalid("--shared and --slots %d: who shares the key needs no slot: use one", f.slots)
	case f.shared && f.minHold > 0:
		return invalid("--shared and --min-hold: a key that others share is not kept from them: leave one out")
	case f.shared && f.fair:
		return invalid("--shared and --fair: those who share the key do not stand in line: leave one out")
	case (f.shared || f.slots > 0) && f.marks():
		return invalid("--run and --period make one run at a time: leave out --shared and --slots")
	}
	return nil
}

// target is the key and the command of the command line.
func (f *runFlags) target(args []string) (key string, command []string, err error) {
	if len(args) < 2 {
		return "", nil, invalid("a key and a command are needed: rowlock run KEY -- COMMAND ARGUMENTS")
	}
	key, command = args[0], args[1:]
	if command[0] == "--" {
		command = command[1:]
	}
	switch {
	case len(command) == 0:
		return "", nil, invalid("a command is needed after %q: rowlock run KEY -- COMMAND ARGUMENTS", key)
	case f.shell && len(command) != 1:
		return "", nil, invalid("-c takes one argument after the key, but there are %d: put the command in quotes", len(command))
	case f.shell:
		command = []string{"/bin/sh", "-c", command[0]}
	}
	if len(key) < 1 || len(key) > 255 {
		return "", nil, invalid("the key has %d bytes: use 1 to 255", len(key))
	}
	return key, command, nil
}

const runLong = `Waits until it holds KEY, runs the command, and frees KEY when no process of the command is left.

The lock is a lease: it is renewed while the command runs, and free after --ttl at the latest if this machine
dies. If it cannot be renewed, the command is asked to end (TERM) when --kill-after is left of it, and killed
before another can get the key. On Linux that holds for everything the command has started, also when this
program is killed.

Exit codes: that of the command, 128+n if it died of signal n; 75 (see -E) the key is held; 79 the lease was
lost before the command ended; 126 the command cannot be executed, 127 it was not found; 64 the command line
cannot be used; 69 the database cannot be reached; 78 password, privileges or tables are missing.

A run can be made once: --run ID names it, and --period makes one in each period, on whichever host is first.
With --mark success it is marked after exit code 0: at least once, and once if the command can bear to be run
again after a crash. With --mark start it is marked before: at most once. What has its mark ends with exit
code 0 (--ran-exit-code), and the command is not run.

With --shared others that have it too can have the key at the same time, and one without it waits until the
last of them has ended; while it waits no new ones come. With --slots 3 at most three commands run at a time,
and ROWLOCK_SLOT is 0, 1 or 2: no two of them have the same.

The command's environment has ROWLOCK_KEY, ROWLOCK_TOKEN, ROWLOCK_OWNER, ROWLOCK_TTL_MS, ROWLOCK_SLOT and
ROWLOCK_RUN, and not ROWLOCK_DB and ROWLOCK_PASSWORD.`

func (a *app) runCommand() *cobra.Command {
	f := &runFlags{}
	cmd := &cobra.Command{
		Use:   "run [flags] KEY [--] COMMAND [ARGUMENT…]",
		Short: "Run a command while holding a key",
		Long:  runLong,
		Example: fmt.Sprintf("  %[1]s run report -- /usr/local/bin/report --daily\n  %[1]s run -x --min-hold 5m report -- /usr/local/bin/report   # in crontab, on several hosts\n  %[1]s run -x --period 10m report -- /usr/local/bin/report    # the same, once in ten minutes",
			a.config.Name),
		RunE: a.command(func(cmd *cobra.Command, args []string) error {
			key, command, err := f.target(args)
			if err == nil {
				err = f.check(cmd)
			}
			if err != nil {
				return err
			}
			r := &run{app: a, f: *f, key: key, command: command}
			if r.guard, err = guardProgram(cmd); err != nil {
				return err
			}
			return r.do(cmd.Context())
		}),
	}
	cmd.Flags().SetInterspersed(false) // what follows KEY is the command's
	f.add(cmd.Flags())
	return cmd
}
