package rowlockcli

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rowlock/rowlock/driver"
)

const freeLong = `Ends the hold of KEY, whoever has it. First it shows who that is and looks whether the holder lives: for half
of what is left of the lease and two seconds. A holder that lives is refused without --alive: end its program
instead, which frees the key at once and lets nothing run twice.

A holder that is freed and lives goes on until its next renewal, at most a third of its TTL, and meanwhile
another can have the key. What checks its token refuses it from now on.

Of a key that several have (run --shared, run --slots) all holds are ended. Whether each of them lives cannot be
seen: where there is more than one it takes --alive.

On a terminal the key has to be typed again. Elsewhere --yes and --token are needed, with the token that
show has shown; the hold is ended only if it is still the one with that token. Exit code 1: nothing was ended.`

func (a *app) freeCommand() *cobra.Command {
	var yes, alive bool
	var token int64
	cmd := &cobra.Command{
		Use:   "free KEY",
		Short: "End the hold of a key whose holder is dead",
		Long:  freeLong,
		Args:  cobra.ExactArgs(1),
		RunE: a.query(func(q *query, args []string) error {
			if yes && token == 0 {
				return invalid("--yes needs --token, that of the hold which is to be ended: rowlock show %q", args[0])
			}
			return q.free(args[0], yes, alive, token)
		}),
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	cmd.Flags().Int64Var(&token, "token", 0, "the `token` of the hold that is to be ended")
	cmd.Flags().BoolVar(&alive, "alive", false, "also if its holder lives, and without looking")
	return cmd
}

func (q *query) free(key string, yes, alive bool, token int64) error {
	forcer, ok := q.Store.(driver.ForcerIf)
	if !ok {
		return fmt.Errorf("%w: this store cannot end a hold", driver.ErrNotSupported)
	}
	seen, err := q.look(key)
	if err != nil {
		return err
	}
	q.describe(seen.Info)
	switch stateOf(seen.Info) {
	case "free":
		q.print("%q is free: there is nothing to end", key)
		q.hintStrategy(seen.Info)
		return nil
	case "pinned":
		return no("%q is held by nobody: an open transaction of its last holder must end first; docs/operations.md says how to find it", key)
	}
	if token != 0 && token != seen.Token {
		return no("the hold of %q with token %d is over; the key is %s, with token %d", key, token, describe(seen.Info), seen.Token)
	}
	if !yes && !q.canAsk() {
		return nobodyToAsk(seen.Info)
	}
	if !alive && !seen.Kept {
		if err := q.mustBeSilent(seen); err != nil {
			return err
		}
	}
	if !yes {
		if err := q.confirm(seen.Info); err != nil {
			return err
		}
	}
	ctx, cancel := q.within()
	defer cancel()
	before, err := forcer.ForceReleaseIf(ctx, seen.Info)
	switch {
	case errors.Is(err, driver.ErrChanged):
		return no("%q has another holder now, or none, and nothing was ended: look again", key)
	case err != nil:
		return err
	case before.Pinned:
		q.print("the hold of %q is ended; the key is free when an open transaction of %s has ended", key, printable(seen.Owner))
	case before.Kept:
		q.print("%q is not kept any more: the key is free", key)
	case before.InPhase():
		q.print("%q was held by %s: all of them are ended, the key is free; those that live go on until their next renewals", key, holders(before))
	default:
		q.print("the hold of %q is ended, the key is free; if %s lives it goes on until its next renewal", key, printable(seen.Owner))
	}
	return nil
}

// mustBeSilent refuses a holder that renews its lease.
func (q *query) mustBeSilent(seen look) error {
	patience := aliveWait(seen.Left)
	q.say("looking for %s whether the holder lives…", short(patience))
	switch what, last, err := q.alive(seen, patience); {
	case err != nil:
		return err
	case what == renewed:
		return no("the holder of %q lives: its lease was renewed just now, and nothing was ended. End the program, %s; or use --alive, and two may work at once for a while", seen.Key, printable(seen.Owner))
	case what == oneLives:
		return no("%q is held by %s, of which one lives, at least: its lease was renewed just now, or it came, and nothing was ended. To end all of them use --alive, and some may work beside the next holder for a while", seen.Key, holders(last.Info))
	case what == unclear:
		return no("%q is held by %s: nobody has renewed the lease that ends last for %s, but whether the others live cannot be seen, and nothing was ended. To end all of them use --alive", seen.Key, holders(last.Info), short(time.Since(seen.begin)))
	case what == changed:
		return no("%q is %s now: nothing was ended", seen.Key, describe(last.Info))
	default:
		q.print("nobody has renewed the lease for %s", short(time.Since(seen.begin)))
	}
	return nil
}

// canAsk reports whether the input may be a person's. A device that is no terminal gives no answer, which confirm sees.
func (q *query) canAsk() bool {
	f, isFile := q.cmd.InOrStdin().(*os.File)
	if !isFile {
		return true
	}
	s, err := f.Stat()
	return err == nil && s.Mode()&os.ModeCharDevice != 0
}

func nobodyToAsk(i driver.Info) error {
	return invalid("nobody can be asked here: add --yes --token %d", i.Token)
}

// confirm has the key typed.
func (q *query) confirm(i driver.Info) error {
	fmt.Fprintf(q.stderr, "type the key to end this hold: ")
	line, err := bufio.NewReader(q.cmd.InOrStdin()).ReadString('\n')
	switch {
	case strings.TrimRight(line, "\r\n") == i.Key:
		return nil
	case err != nil && line == "":
		fmt.Fprintln(q.stderr)
		return nobodyToAsk(i)
	}
	return no("that is not the key: nothing was ended")
}

// no is the answer of a command that has done nothing.
func no(format string, args ...any) error {
	return &ExitError{Code: exitFailed, Err: fmt.Errorf(format, args...)}
}
