package rowlockcli

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rowlock/rowlock/cmd/rowlock/internal/guard"
)

const guardName = "__guard"

// guardCommand is the process between run and its command: see package guard.
func (a *app) guardCommand() *cobra.Command {
	return &cobra.Command{
		Use:    guardName,
		Hidden: true,
		RunE: func(_ *cobra.Command, args []string) error {
			if code := guard.Main(args); code != 0 {
				return &ExitError{Code: code}
			}
			return nil
		},
	}
}

// guardProgram is the command line of the guard, as [guard.Start] takes it: this program, the names of the commands that lead
// to run in it, and guardName instead of run.
func guardProgram(run *cobra.Command) ([]string, error) {
	path, err := os.Executable()
	if err != nil {
		return nil, &ExitError{Code: exitBug, Err: fmt.Errorf("the path of this program is not known: %w", err)}
	}
	words := strings.Fields(run.Parent().CommandPath())[1:]
	return append(append([]string{path}, words...), guardName), nil
}
