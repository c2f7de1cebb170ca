package rowlockcli

import (
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/rowlock/rowlock/driver"
)

func (a *app) runsCommand() *cobra.Command {
	var limit int
	cmd := &cobra.Command{
		Use:   "runs KEY",
		Short: "List the runs of a key that have their mark",
		Long: `Lists the runs of KEY that have their mark, the newest first: those of run --run and --period, and of Once
and MarkRun of programs. A run with a mark is not made again.`,
		Args: cobra.ExactArgs(1),
		RunE: a.query(func(q *query, args []string) error {
			lister, ok := q.Store.(driver.MarkLister)
			if !ok {
				return fmt.Errorf("%w: this store has no marks", driver.ErrNotSupported)
			}
			if limit < 1 {
				return invalid("--limit %d: use at least 1", limit)
			}
			ctx, cancel := q.within()
			defer cancel()
			marks, err := lister.Marks(ctx, args[0], limit)
			if err != nil {
				return err
			}
			table := tabwriter.NewWriter(q.cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(table, "RUN\tMARKED\tAGE\tTOKEN")
			for _, m := range marks {
				fmt.Fprintf(table, "%s\t%s\t%s\t%d\n", printable(m.Run), m.At.Local().Format("2006-01-02 15:04:05"), short(m.Age), m.Token)
			}
			return table.Flush()
		}),
	}
	cmd.Flags().IntVar(&limit, "limit", 20, "at most so `many`")
	return cmd
}
