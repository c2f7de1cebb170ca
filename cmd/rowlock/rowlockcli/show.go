package rowlockcli

import (
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/rowlock/rowlock/driver"
)

func (a *app) showCommand() *cobra.Command {
	var quick bool
	var output string
	cmd := &cobra.Command{
		Use:   "show KEY",
		Short: "Show who has a key, since when, and whether its holder lives",
		Long: `Shows who has KEY, and looks again until the lease is renewed, or for half of what is left of it and two
seconds: a holder that lives renews its lease in each third of its TTL. With --quick it looks once.

Of a key that several have (run --shared, run --slots) the last of their leases is looked at, and the token is
that of the time in which they have it, which freeing the key ends.`,
		Args: cobra.ExactArgs(1),
		RunE: a.query(func(q *query, args []string) error {
			first, err := q.look(args[0])
			if err != nil {
				return err
			}
			if stateOf(first.Info) == "free" {
				q.hintStrategy(first.Info)
			}
			if output == "json" {
				write, flush, err := writer(q, output)
				if err == nil {
					write(first.Info)
					flush()
				}
				return err
			} else if output != "text" {
				return invalid("-o %s: use text or json", output)
			}
			q.describe(first.Info)
			if !first.Held || first.Kept || quick {
				return nil
			}
			patience := aliveWait(first.Left)
			q.detail("looking for %s whether the lease is renewed", short(patience))
			what, last, err := q.alive(first, patience)
			if err != nil {
				return err
			}
			switch what {
			case renewed:
				q.print("alive   yes: its lease was renewed just now, and ends in %s", short(last.Left))
			case oneLives:
				q.print("alive   one of them, at least: it was renewed or came just now, and the last lease ends in %s", short(last.Left))
			case unclear:
				q.print("alive   not known: for %s nobody has renewed the lease that ends last, in %s; whether the others live cannot be seen", short(time.Since(first.begin)), short(last.Left))
			case changed:
				q.print("alive   the key is %s now", describe(last.Info))
			default:
				q.print("alive   no sign of it: nobody has renewed the lease for %s; the key is free in %s", short(time.Since(first.begin)), short(last.Left))
			}
			return nil
		}),
	}
	cmd.Flags().BoolVar(&quick, "quick", false, "look once, and do not say whether the holder lives")
	cmd.Flags().StringVarP(&output, "output", "o", "text", "`how`: text, or json (one look)")
	return cmd
}

// describe writes what is known of a key.
func (q *query) describe(i driver.Info) {
	table := tabwriter.NewWriter(q.cmd.OutOrStdout(), 8, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) {
		fmt.Fprintf(table, "%s\t%s\n", name, fmt.Sprintf(format, args...))
	}
	row("key", "%s", printable(i.Key))
	row("state", "%s", stateText(i))
	if i.InPhase() {
		row("holders", "%s", holders(i))
	}
	if i.Token != 0 {
		holder := "owner"
		if stateOf(i) != "held" {
			holder = "last"
		}
		if i.Readers+i.Slots > 1 {
			holder = "one is"
		}
		row(holder, "%s", printable(i.Owner))
		if !i.Since.IsZero() {
			row("since", "%s (%s)", i.Since.Local().Format("2006-01-02 15:04:05"), short(age(i)))
		}
		row("token", "%d", i.Token)
	}
	if i.Held {
		row("left", "%s", short(i.Left))
	}
	if i.Hold != (driver.HoldID{}) {
		row("hold", "%s", i.Hold)
	}
	if i.Waiting > 0 {
		row("waiting", "%s", waitingText(i))
	}
	_ = table.Flush()
}

// stateText is the state with what it means.
func stateText(i driver.Info) string {
	s := stateOf(i)
	if m := meaning[s]; m != "" {
		return s + ": " + m
	}
	return s
}
