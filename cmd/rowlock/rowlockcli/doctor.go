package rowlockcli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rowlock/rowlock/doctor"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/defaults"
)

// examiner is a store that can be looked at.
type examiner interface {
	Doctor(context.Context, doctor.Options) (*doctor.Report, error)
}

// perProgram is how many connections a program has by default in MySQL: 8, and 2 for wake-ups.
const perProgram = 10

func (a *app) doctorCommand() *cobra.Command {
	o := doctor.Options{}
	var ttl, failover duration
	var strict, all bool
	var output string
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Say what is wrong with the database as a place for locks, and how to mend it",
		Long: `Looks at settings, privileges, tables, proxies, clock and latency, and says what each finding means for a lock
and which command mends it. It changes nothing but a key of its own, which it takes and removes to measure; with
--read-only not even that. What each ID means: docs/doctor.md.

The exit codes are those of plugins for Nagios: 0 good, 1 a warning, 2 a failure, 3 the database could not be
looked at. What the user has no right to see is skipped, and counts as good; with --strict a warning is 2, and
3 says that something was skipped.`,
		Args: cobra.NoArgs,
		RunE: a.command(func(cmd *cobra.Command, _ []string) error {
			if output != "table" && output != "json" {
				return invalid("-o %s: use table or json", output)
			}
			o.TTL, o.Failover = time.Duration(ttl), time.Duration(failover)
			report, err := a.examine(cmd.Context(), o)
			switch {
			case errors.Is(err, driver.ErrInvalid):
				return err
			case err != nil:
				return &ExitError{Code: doctor.ExitUnknown, Err: err}
			}
			var b strings.Builder
			if output == "json" {
				encoder := json.NewEncoder(&b)
				encoder.SetEscapeHTML(false)
				if err := encoder.Encode(report); err != nil {
					return err
				}
			} else {
				describeReport(&b, report, all)
			}
			if _, err := io.WriteString(cmd.OutOrStdout(), a.clean(b.String())); err != nil {
				return err
			}
			if code := report.Exit(strict); code != doctor.ExitOK {
				return &ExitError{Code: code}
			}
			return nil
		}),
	}
	set := cmd.Flags()
	set.BoolVar(&strict, "strict", false, "a warning counts as a failure, and what is skipped as unknown")
	set.BoolVarP(&all, "all", "a", false, "show what is good too")
	set.StringSliceVar(&o.Ignore, "ignore", nil, "do not look at these `IDs`, as RL104,RL122")
	set.BoolVar(&o.ReadOnly, "read-only", false, "only read: nothing is measured but the clock")
	set.BoolVar(&o.Migrate, "migrate", false, "look whether the user may make tables too")
	set.Var(&ttl, "ttl", fmt.Sprintf("the TTL of your locks (default %s)", defaults.TTL))
	set.Var(&failover, "failover", "how long the database may take to name a new primary (default: as is known of its kind)")
	set.IntVar(&o.Programs, "programs", 1, "how `many` programs use the locks")
	set.IntVar(&o.Connections, "connections", 0, "MySQL: how `many` connections each program has (default 10)")
	set.IntVar(&o.Samples, "samples", 30, "how `often` each latency is measured")
	set.StringVarP(&output, "output", "o", "table", "`how`: table or json")
	return cmd
}

// examine has the store looked at.
func (a *app) examine(ctx context.Context, o doctor.Options) (*doctor.Report, error) {
	if a.config.Open == nil {
		s, err := a.settings()
		if err != nil {
			return nil, err
		}
		if s.address.kind != "mysql" {
			o.URI = s.address.uri()
		} else if o.Connections == 0 { // the store of this program has fewer
			o.Connections = perProgram
		}
	}
	opened, err := a.open(ctx)
	if err != nil {
		return nil, err
	}
	defer opened.close()
	store, ok := opened.Store.(examiner)
	if !ok {
		return nil, fmt.Errorf("%w: this store has no doctor", driver.ErrNotSupported)
	}
	ctx, stop := untilSignal(ctx)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, max(time.Minute, time.Duration(a.flags.timeout)))
	defer cancel()
	report, err := store.Doctor(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", opened.where, err)
	}
	return report, nil
}
