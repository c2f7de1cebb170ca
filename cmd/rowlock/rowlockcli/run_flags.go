package rowlockcli

import (
	"cmp"
	"slices"
	"strings"
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

	connectWait duration
	splay       duration

	shared bool
	slots  int // 0: none

	and []string // more keys, named before KEY

	runID, mark string
	period      duration
	ranCode     int
	http        string
	ping        string
	onFail      string
	keepGoing   bool
	metricsFile string
}

// add adds them to a command.
func (f *runFlags) add(set *pflag.FlagSet) {
	f.ttl, f.killAfter = duration(time.Minute), duration(10*time.Second)
	set.BoolVarP(&f.noWait, "no-wait", "n", false, "do not wait if the key is held")
	set.VarP(&f.wait, "wait", "w", "wait at most so long; 0: as -n (default: for as long as it takes)")
	set.IntVarP(&f.conflict, "conflict-exit-code", "E", exitHeld, "the exit `code` when the key was not got, because it is held")
	set.BoolVarP(&f.skip, "skip-ok", "x", false, "not to get the key is fine: exit code 0, and nothing is said; without -w do not wait. For cron")
	f.connectWait = duration(30 * time.Second)
	set.Var(&f.connectWait, "connect-wait", "how long the database may take until it answers at all, apart from the wait for the key; then exit code 69. 0: ask it once")
	set.Var(&f.splay, "splay", "wait for a random part of this `time` first, so that many hosts do not come at once")
	set.BoolVarP(&f.shared, "shared", "s", false, "share the key with others that have this option: nobody has it alone meanwhile")
	set.IntVar(&f.slots, "slots", 0, "at most so `many` commands at a time; ROWLOCK_SLOT is the number of this one, from 0")
	set.StringArrayVar(&f.and, "and", nil, "hold this `key` too, all of them or none; as often as needed, before KEY or right after it")
	set.Var(&f.ttl, "ttl", "how long the key stays taken after a crash; renewed while the command runs")
	set.VarP(&f.killAfter, "kill-after", "k", "how long the command has between TERM and KILL, at most a third of --ttl; 0: KILL at once")
	set.Var(&f.minHold, "min-hold", "keep the key taken for so long, however short the command is")
	set.Var(&f.maxHold, "max-hold", "end the command after so long, with exit code 80; at least --ttl")
	set.StringVar(&f.owner, "owner", "", "`who` has the key, for people (default host:pid)")
	set.StringVar(&f.leftovers, "leftovers", string(guard.Wait), "`what` becomes of processes that the command leaves behind: wait for them, kill them, leave them")
	set.BoolVarP(&f.shell, "shell", "c", false, "the one argument after KEY is given to /bin/sh -c")
	set.StringVar(&f.onLost, "on-lost", "term", "`how` the command is ended when the lease is lost: term (and kill), or kill")
	set.BoolVar(&f.keepGoing, "keep-going", false, "when the lease is lost, and the command was ended with it, wait for the key again and start the command again")
	set.BoolVar(&f.passDB, "pass-db", false, "leave ROWLOCK_DB and ROWLOCK_PASSWORD in the environment of the command")
	set.StringVar(&f.runID, "run", "", "make the run with this `ID` once: not if it has its mark")
	set.Var(&f.period, "period", "make one run in each period: not if one began less than half of it ago, by the database's clock")
	set.StringVar(&f.mark, "mark", "success", "`when` a run of --run or --period gets its mark: at its start, or after its success")
	set.IntVar(&f.ranCode, "ran-exit-code", 0, "the exit `code` when the run was made before")
	set.StringVar(&f.http, "http", "", "listen on this `address`, :8089 or 0.0.0.0:8089 for other machines too: /healthz (200 while the command runs), /leader, /metrics")
	set.StringVar(&f.ping, "ping", "", "ask for this `URL` after a success, URL/start at the start, URL/fail after a failure: healthchecks.io and the like")
	set.StringVar(&f.onFail, "on-fail", "", "run this `command` by sh when the key was not got or was lost; ROWLOCK_REASON and others say why")
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
	for _, err := range []error{f.checkKeepGoing(), f.checkHook(), f.checkPing()} {
		if err != nil {
			return err
		}
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
	if f.maxHold > 0 && f.maxHold < f.ttl {
		return invalid("--max-hold %s is less than --ttl %s: use a shorter --ttl, or a longer --max-hold", time.Duration(f.maxHold), time.Duration(f.ttl))
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
	case (f.shared || f.slots > 0) && f.marks():
		return invalid("--run and --period make one run at a time: leave out --shared and --slots")
	}
	return nil
}

// option is the name of one, without its value, which may be a password.
func option(argument string) string {
	name, _, _ := strings.Cut(argument, "=")
	return name
}

// target is the keys, the first of them KEY, and the command of the command line.
func (f *runFlags) target(args []string) (keys, command []string, err error) {
	if len(args) < 2 {
		return nil, nil, invalid("a key and a command are needed: rowlock run KEY -- COMMAND ARGUMENTS")
	}
	more, command, err := andKeys(args[1:])
	if err != nil {
		return nil, nil, err
	}
	keys = slices.Concat(args[:1], f.and, more)
	named := len(command) > 0 && command[0] == "--"
	if named {
		command = command[1:]
	}
	switch {
	case !named && len(command) > 0 && strings.HasPrefix(command[0], "-"):
		return nil, nil, invalid("%s after the key: options come before it (only --and may follow), the command after --: rowlock run %[1]s … %s -- COMMAND ARGUMENTS", option(command[0]), keys[0])
	case len(command) == 0:
		return nil, nil, invalid("a command is needed after %q: rowlock run KEY -- COMMAND ARGUMENTS", keys[len(keys)-1])
	case f.shell && len(command) != 1:
		return nil, nil, invalid("-c takes one argument after the key, but there are %d: put the command in quotes", len(command))
	case f.shell:
		command = []string{"/bin/sh", "-c", command[0]}
	}
	return keys, command, nil
}

const runLong = `Waits until it holds KEY, runs the command, and frees KEY when no process of the command is left.

The lock is a lease: it is renewed while the command runs, and free after --ttl at the latest if this machine
dies. If it cannot be renewed, the command is asked to end (TERM) when --kill-after is left of it, and killed
before another can get the key. On Linux that holds for everything the command has started, also when this
program is killed. With --strategy for-update the key is free at the moment in which this program or its
session dies: the command is killed at once, and can live for some milliseconds beside the next one.
Processes of other users cannot be ended: use sudo rowlock run …, not rowlock run … sudo.

Exit codes: that of the command, 128+n if it died of signal n; 75 (see -E) the key is held; 79 the lease was
lost before the command ended, which may not have been alone; 80 --max-hold was over; 126 the command cannot be
executed, 127 it was not found; 64 the command line cannot be used; 69 the database cannot be reached; 78
password, privileges or tables are missing.

A run can be made once: --run ID names it, and --period makes one in each period, on whichever host is first.
With --mark success it is marked after exit code 0: at least once, and once if the command can bear to be run
again after a crash. With --mark start it is marked before: at most once. What has its mark ends with exit
code 0 (--ran-exit-code), and the command is not run.

With --shared others that have it too can have the key at the same time, and one without it waits until the
last of them has ended; while it waits no new ones come. With --slots 3 at most three commands run at a time,
and ROWLOCK_SLOT is 0, 1 or 2: no two of them have the same.

With --and the command needs several keys at once: run a --and b --and c -- COMMAND. It holds all of them or
none. Two such calls never wait for each other in a circle, whatever the order in which they name the keys.
If the lease of one is lost the command ends. A run of --run and --period, --metrics-file and /leader are of
the first key.

With --keep-going a command that was ended with its lease is started again, when the key is held again: for a
daemon, and for a job that can bear to be cut off and begun anew. What it did last before the loss was maybe
not alone. The exit code is that of the last round; 79 if the key was not had again within --wait.

--on-fail COMMAND is run by sh when the key was not got or was lost, after the run's own command has ended and
the keys are free, for at most 30s. ROWLOCK_REASON is held, lost, max-hold, unreachable (the database) or
refused (password, privileges, tables); ROWLOCK_EXIT_CODE and ROWLOCK_MESSAGE say the rest. It is not run when
the command itself fails, nor with -x when the key is held.

--ping URL asks for URL/start when the command is started, URL when it ended with exit code 0, and URL/fail
otherwise, also if it could not be started. If another has the key or has made the run nothing is sent: the
pings of that one count. A ping may take 5s, and what goes wrong with it is one line.

The command's environment has ROWLOCK_KEY, ROWLOCK_TOKEN, ROWLOCK_OWNER, ROWLOCK_TTL_MS, ROWLOCK_SLOT and
ROWLOCK_RUN, and not ROWLOCK_DB and ROWLOCK_PASSWORD. With --and it has ROWLOCK_KEYS, the number of keys, and
for the second ROWLOCK_KEY_2, ROWLOCK_TOKEN_2 and ROWLOCK_SLOT_2; each key has a token of its own.`

func (a *app) runCommand() *cobra.Command {
	f := &runFlags{}
	cmd := &cobra.Command{
		Use:   "run [flags] KEY [--and KEY…] [--] COMMAND [ARGUMENT…]",
		Short: "Run a command while holding a key",
		Long:  runLong,
		RunE: a.command(func(cmd *cobra.Command, args []string) error {
			defer a.withoutWaiting(cmd.ErrOrStderr())()
			keys, command, err := f.target(args)
			if err == nil {
				keys, err = a.acceptKeys(keys)
			}
			if err == nil {
				err = cmp.Or(checkKeys(keys), f.check(cmd))
			}
			if err != nil {
				a.sayNotes()
				return err
			}
			if code, is := a.front(); is {
				return &ExitError{Code: code}
			}
			a.sayNotes()
			r := &run{app: a, f: *f, key: keys[0], keys: keys, command: command}
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
