package rowlockcli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/rowlock/rowlock/driver"
)

func (a *app) reapCommand() *cobra.Command {
	var yes bool
	older, runs := duration(24*time.Hour), duration(0)
	cmd := &cobra.Command{
		Use:   "reap",
		Short: "Remove rows of keys that are free for long, and old marks of runs",
		Long: `Removes the rows (MongoDB: documents) of keys that have been free for --older. It is housekeeping: a row that
stays costs disk, nothing else, and programs do it by themselves once an hour.

With --runs also the marks of runs that are older than that (run --run, Once, MarkRun). Nobody else removes
them. A run whose mark is gone can be made again.

Without --yes it removes nothing, and says what it would do.`,
		Args: cobra.NoArgs,
		RunE: a.query(func(q *query, _ []string) error {
			withRuns := q.cmd.Flags().Changed("runs")
			if older < duration(time.Hour) || withRuns && runs < duration(time.Hour) {
				return invalid("--older and --runs are at least 1h: what was released a moment ago may still be in use")
			}
			if !yes {
				q.print("would remove the rows of keys that have been free for %s", short(time.Duration(older)))
				if withRuns {
					q.print("would remove the marks of runs that are older than %s: such a run can be made again then", short(time.Duration(runs)))
				}
				q.print("nothing was removed: add --yes")
				return nil
			}
			reaper, ok := q.Store.(driver.Reaper)
			if !ok {
				return fmt.Errorf("%w: this store has nothing to remove", driver.ErrNotSupported)
			}
			n, err := q.removeAll(time.Duration(older), reaper.Reap)
			q.print("%d rows of free keys were removed", n)
			if err != nil || !withRuns {
				return err
			}
			marker, ok := q.Store.(interface {
				ReapRuns(context.Context, time.Duration) (int, error)
			})
			if !ok {
				return fmt.Errorf("%w: this store has no marks", driver.ErrNotSupported)
			}
			n, err = q.removeAll(time.Duration(runs), marker.ReapRuns)
			q.print("%d marks of runs were removed", n)
			return err
		}),
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "remove them")
	cmd.Flags().Var(&older, "older", "rows of keys that have been free for so long")
	cmd.Flags().Var(&runs, "runs", "marks of runs that are older than that (default: none)")
	return cmd
}

// removeAll calls a remover until nothing is left for it.
func (q *query) removeAll(older time.Duration, remove func(context.Context, time.Duration) (int, error)) (n int, err error) {
	for {
		ctx, cancel := q.within()
		some, err := remove(ctx, older)
		cancel()
		n += some
		if err != nil || some < driver.MaxReap {
			return n, err
		}
	}
}
