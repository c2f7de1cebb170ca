package rowlockcli

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"
)

func (a *app) waitCommand() *cobra.Command {
	var wait duration
	cmd := &cobra.Command{
		Use:   "wait KEY",
		Short: "Wait until a key is free, without taking it",
		Long: `Waits until KEY is free, and does not take it: another can have it at once. Exit code 75 when the time of
--wait is over. To run something while nobody else does, use run.`,
		Args: cobra.ExactArgs(1),
		RunE: a.query(func(q *query, args []string) error {
			begin, between := time.Now(), 50*time.Millisecond
			for looks := 1; ; looks++ {
				l, err := q.look(args[0])
				if err != nil {
					return err
				}
				if stateOf(l.Info) == "free" {
					if looks == 1 {
						q.hintStrategy(l.Info)
					}
					return nil
				}
				left := time.Hour
				if q.cmd.Flags().Changed("wait") {
					left = time.Until(begin.Add(time.Duration(wait)))
				}
				if left <= 0 {
					return &ExitError{Code: exitHeld, Err: fmt.Errorf("%q was not free within %s: it is %s", args[0], short(time.Duration(wait)), describe(l.Info))}
				}
				if err := q.pause(min(between, left)); err != nil {
					return err
				}
				between = min(between*3/2, time.Second)
			}
		}),
	}
	cmd.Flags().VarP(&wait, "wait", "w", "at most so long (default: for as long as it takes)")
	return cmd
}
