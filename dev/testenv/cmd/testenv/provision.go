package main

import (
	"os"

	"github.com/rowlock/rowlock/dev/testenv"
	"github.com/spf13/cobra"
)

func provisionCommand() *cobra.Command {
	var servers []string
	cmd := &cobra.Command{
		Use:   "provision",
		Short: "Fetch the server programs into the cache (Debian on x86_64; no root, nothing installed)",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			kinds, err := parseKinds(servers)
			if err != nil {
				return err
			}
			return testenv.Provision(cmd.Context(), os.Stderr, kinds...)
		},
	}
	serversFlag(cmd, &servers)
	return cmd
}

// serversFlag adds the flag that says which kinds of servers are meant.
func serversFlag(cmd *cobra.Command, servers *[]string) {
	cmd.Flags().StringSliceVar(servers, "servers", []string{"mysql", "mariadb", "mongo"}, "the kinds of servers")
}

func parseKinds(names []string) ([]testenv.Kind, error) {
	var kinds []testenv.Kind
	for _, name := range names {
		k, err := testenv.ParseKind(name)
		if err != nil {
			return nil, err
		}
		kinds = append(kinds, k)
	}
	return kinds, nil
}
