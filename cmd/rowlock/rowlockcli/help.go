package rowlockcli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// The groups of options, in the order of the help.
const (
	optionsOfLock     = "Lock"
	optionsOfTime     = "Time"
	optionsOfOthers   = "What others do"
	optionsOfCommand  = "Command"
	optionsOfOutput   = "Output"
	optionsOfDatabase = "Database"

	otherOptions = "Options" // of other commands, and what is in no group
)

// groups are the options of run and those of every command.
var groups = []struct {
	title string
	names []string
}{
	{optionsOfLock, []string{"and", "owner", "run", "period", "mark", "ran-exit-code", "on-lost"}},
	{optionsOfTime, []string{"wait", "ttl", "kill-after", "min-hold", "max-hold", "connect-wait", "splay", "timeout"}},
	{optionsOfOthers, []string{"no-wait", "skip-ok", "conflict-exit-code", "shared", "slots"}},
	{optionsOfCommand, []string{"shell", "leftovers", "keep-going", "on-fail", "pass-db"}},
	{optionsOfOutput, []string{"verbose", "metrics-file", "http", "ping", "help"}},
	{optionsOfDatabase, []string{"db", "config", "password-file", "tls-ca", "tls-cert", "tls-key", "strategy", "prefix", "collection"}},
}

// helpWidth is how wide the options are written.
const helpWidth = 110

// showHelp writes the help of a command: examples first.
func (a *app) showHelp(cmd *cobra.Command, _ []string) {
	out := cmd.OutOrStdout()
	fmt.Fprintln(out, cmd.Short)
	path, name := cmd.CommandPath(), ""
	if len(cmd.Commands()) == 0 {
		path, name = cmd.Parent().CommandPath(), cmd.Name()
	}
	if text := examples[name]; text != "" {
		fmt.Fprintf(out, "\nExamples:\n%s\n", strings.ReplaceAll(strings.Trim(text, "\n"), "rowlock", path))
	}
	use := cmd.UseLine()
	if len(cmd.Commands()) > 0 {
		use = path + " COMMAND [flags] …"
	}
	fmt.Fprintf(out, "\nUsage:\n  %s\n", use)
	if long := strings.TrimSpace(cmd.Long); long != "" {
		fmt.Fprintf(out, "\n%s\n", long)
	}
	writeCommands(out, cmd)
	writeOptions(out, cmd)
	if len(cmd.Commands()) > 0 {
		fmt.Fprintf(out, "\n%s COMMAND --help says more of each.\n", path)
	}
}

// writeCommands lists the commands below one, in groups.
func writeCommands(out io.Writer, cmd *cobra.Command) {
	write := func(title, group string) {
		for _, c := range cmd.Commands() {
			if !c.IsAvailableCommand() && c.Name() != "help" || c.GroupID != group {
				continue
			}
			if title != "" {
				fmt.Fprintf(out, "\n%s:\n", title)
				title = ""
			}
			fmt.Fprintf(out, "  %-*s  %s\n", cmd.NamePadding(), c.Name(), c.Short)
		}
	}
	for _, g := range cmd.Groups() {
		write(g.Title, g.ID)
	}
	write("Others", "")
}

// writeOptions lists the options of a command, in groups.
func writeOptions(out io.Writer, cmd *cobra.Command) {
	sets := make(map[string]*pflag.FlagSet)
	add := func(title string, f *pflag.Flag) {
		if sets[title] == nil {
			sets[title] = pflag.NewFlagSet(title, pflag.ContinueOnError)
		}
		if sets[title].Lookup(f.Name) == nil {
			sets[title].AddFlag(f)
		}
	}
	cmd.InitDefaultHelpFlag()
	own := cmd.LocalNonPersistentFlags()
	title := func(f *pflag.Flag) string {
		group := groupOf(f.Name)
		switch {
		case group == "", cmd.Name() != "run" && (group != optionsOfDatabase || own.Lookup(f.Name) != nil):
			return otherOptions // few enough
		}
		return group
	}
	all := cmd.Flags()
	for _, g := range groups { // in this order
		for _, name := range g.names {
			if f := all.Lookup(name); f != nil {
				add(title(f), f)
			}
		}
	}
	all.VisitAll(func(f *pflag.Flag) { add(title(f), f) })
	titles := []string{otherOptions}
	for _, g := range groups {
		titles = append(titles, g.title)
	}
	for _, t := range titles {
		if set := sets[t]; set != nil {
			set.SortFlags = t == otherOptions
			fmt.Fprintf(out, "\n%s:\n%s", t, set.FlagUsagesWrapped(helpWidth))
		}
	}
}

// groupOf is the title of the group of an option; empty if it is in none.
func groupOf(name string) string {
	for _, g := range groups {
		if slices.Contains(g.names, name) {
			return g.title
		}
	}
	return ""
}
