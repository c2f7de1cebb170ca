package rowlockcli

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// Version is that of the program; make dist sets it.
var Version = ""

func (a *app) versionCommand() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Show the version of this program",
		Args:  cobra.NoArgs,
		RunE: a.command(func(cmd *cobra.Command, _ []string) error {
			v := version()
			switch output {
			case "json":
				return json.NewEncoder(cmd.OutOrStdout()).Encode(v)
			case "text":
				_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s %s (%s, %s)\n", a.config.Name, v["version"], v["go"], v["platform"])
				return err
			}
			return invalid("-o %s: use text or json", output)
		}),
	}
	cmd.Flags().StringVarP(&output, "output", "o", "text", "`how`: text or json")
	return cmd
}

func version() map[string]string {
	v := map[string]string{"version": Version, "go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	if v["version"] == "" {
		v["version"] = info.Main.Version
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			v["revision"] = s.Value
		}
	}
	return v
}
