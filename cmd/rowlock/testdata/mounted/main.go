// Command mounted has the commands of rowlock among its own, for its own store.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/rowlock/rowlock/cmd/rowlock/rowlockcli"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/memory"
)

func main() {
	root := &cobra.Command{Use: "mounted", SilenceErrors: true, SilenceUsage: true}
	tools := &cobra.Command{Use: "tools"}
	root.AddCommand(tools)
	tools.AddCommand(rowlockcli.New(rowlockcli.Config{
		Name: "locks",
		Open: func(context.Context) (driver.Store, func(), error) {
			return memory.New(), func() { fmt.Println("closed") }, nil
		},
	}))
	if err := root.Execute(); err != nil {
		if text := err.Error(); text != "" {
			fmt.Fprintln(os.Stderr, "mounted: "+text)
		}
		os.Exit(rowlockcli.ExitCode(err))
	}
}
