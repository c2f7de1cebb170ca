package rowlockcli

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// unknownCommand refuses an argument of the command above all others, which takes none.
func unknownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	cmd.SuggestionsMinimumDistance = 2
	name := args[0]
	if strings.ContainsAny(name, ":@") {
		return invalid("an address is no command: use --db URL, or better ROWLOCK_DB (see %s --help)", cmd.CommandPath()) // there may be a password in it
	}
	text := fmt.Sprintf("unknown command %q for %q", name, cmd.CommandPath())
	switch near := didYouMean(cmd.SuggestionsFor(name)); {
	case near != "":
		text += near
	case len(args) > 1:
		text += fmt.Sprintf("; to run a command: %s run KEY -- COMMAND", cmd.CommandPath())
	}
	return invalid("%s (see %s --help)", text, cmd.CommandPath())
}

// didYouMean asks for some names, as the end of a sentence.
func didYouMean(names []string) string {
	slices.Sort(names)
	if names = slices.Compact(names); len(names) == 0 {
		return ""
	}
	return "; did you mean " + strings.Join(names, " or ") + "?"
}

// flagError makes an error in flags one of usage, which asks for what may have been meant.
func flagError(cmd *cobra.Command, err error) error {
	text := err.Error()
	var unknown *pflag.NotExistError
	var value *pflag.InvalidValueError
	switch {
	case errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() != "":
		letters := unknown.GetSpecifiedShortnames()
		switch {
		case cmd.Flags().Lookup(letters) != nil:
			text = twoDashes(letters)
		case len(letters) > 1:
			text = fmt.Sprintf("unknown option -%s", unknown.GetSpecifiedName()) // what follows may be a password, as of mysql -p
		}
	case errors.As(err, &unknown):
		text += didYouMean(nearFlags(cmd, unknown.GetSpecifiedName()))
	case errors.As(err, &value) && value.GetFlag().Shorthand != "":
		word := value.GetFlag().Shorthand + value.GetValue()
		if slices.Contains(os.Args, "-"+word) && cmd.Flags().Lookup(word) != nil {
			text = twoDashes(word)
		}
	}
	return invalid("%s (see %s --help)", text, cmd.CommandPath())
}

func twoDashes(name string) string {
	return fmt.Sprintf("-%[1]s: long options have two dashes: use --%[1]s", name)
}

// nearFlags are the options of a command whose names are near to one, by the measure that cobra has for commands; also those that
// have another name in other programs.
func nearFlags(cmd *cobra.Command, name string) []string {
	names := &cobra.Command{SuggestionsMinimumDistance: 2}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names.AddCommand(&cobra.Command{Use: f.Name, Run: func(*cobra.Command, []string) {}})
		}
	})
	for tried := range otherNames {
		names.AddCommand(&cobra.Command{Use: tried, Run: func(*cobra.Command, []string) {}})
	}
	var near []string
	for _, n := range names.SuggestionsFor(name) {
		if n = cmp.Or(otherNames[n], n); cmd.Flags().Lookup(n) != nil {
			near = append(near, "--"+n)
		}
	}
	return near
}
