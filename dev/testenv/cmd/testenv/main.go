// Command testenv starts real database servers for tests, the demo and the benchmarks, and leaves nothing behind.
//
//	testenv run -- go test ./...     starts servers, exports their addresses, runs the command, hands on its exit code
//	testenv serve mysql              one server of one's own for a fault test, driven by lines on standard input
//	testenv provision                fetches the server programs into the cache and ends
//
// Where the servers come from is told by the package documentation of testenv.
package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
)

func main() {
	root := &cobra.Command{
		Use:   "testenv",
		Short: "Real database servers for tests",
		Long: `Real database servers for tests.

Variables: ROWLOCK_TEST_MODE=env|local|docker|packages says where servers come from, ROWLOCK_TEST_CACHE where their
programs are kept and ROWLOCK_TEST_DATA their data, and ROWLOCK_TEST_SYNC=2ms makes each sync to disk of the servers that
are started here that much slower. testenv/README.md says more.`,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.CompletionOptions.DisableDefaultCmd = true
	root.AddCommand(runCommand(), serveCommand(), provisionCommand())
	err := root.Execute()
	var code exitCode
	switch {
	case errors.As(err, &code):
		os.Exit(int(code))
	case err != nil:
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// exitCode is the exit code of the command that ran, to be handed on without a word.
type exitCode int

func (c exitCode) Error() string { return fmt.Sprintf("exit code %d", int(c)) }
