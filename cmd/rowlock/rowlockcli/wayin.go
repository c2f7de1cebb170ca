package rowlockcli

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rowlock/rowlock/internal/input"
)

// accept is the way in for a value from outside, called name: a flag, a variable, a line of a file, a key. White space and control
// characters at its ends are cut off, with a word; a control character in it is an error. Neither has the value.
func (a *app) accept(name, value string) (string, error) {
	value, cut := input.Trim(value)
	if cut != "" {
		a.note("%s: %s was cut off", name, cut)
	}
	if c := input.Control(value); c != "" {
		return "", invalid("%s has %s in it: leave it out", name, c)
	}
	return value, nil
}

// variable is the value of a variable of the environment.
func (a *app) variable(name string) (string, error) { return a.accept(name, os.Getenv(name)) }

// acceptKeys is accept for the keys of a command that takes them.
func (a *app) acceptKeys(keys []string) (accepted []string, err error) {
	for _, key := range keys {
		if key, err = a.accept("KEY", key); err != nil {
			return nil, err
		}
		accepted = append(accepted, key)
	}
	return accepted, nil
}

// keyAsItIs warns of a key to look at, or to end, that this program would not take: it may be another program's, whose keys are any bytes.
func (a *app) keyAsItIs(key string) {
	if fault := input.Fault(key); fault != "" {
		a.warn(fmt.Sprintf("the key %q %s, and is looked for as it is: rowlock run takes no such key", key, fault))
	}
}

// note is a warning that is said once. Options are read before there is somebody to say it.
func (a *app) note(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if slices.Contains(a.notes, text) {
		return
	}
	a.notes = append(a.notes, text)
	if a.noting {
		a.warn(text)
	}
}

// sayNotes says the notes so far; later ones are said at once.
func (a *app) sayNotes() {
	for _, text := range a.notes {
		a.warn(text)
	}
	a.noting = true
}

// asTheyAre are options whose values are any text: what sh runs, and a key of another program.
var asTheyAre = []string{"on-fail", "after"}

// guardFlags puts the way in before the options of a command and of those below it.
func (a *app) guardFlags(cmd *cobra.Command) {
	guard := func(f *pflag.Flag) {
		if _, is := f.Value.(*flagValue); !is && !slices.Contains(asTheyAre, f.Name) {
			f.Value = &flagValue{f.Value, a, "--" + f.Name}
		}
	}
	cmd.PersistentFlags().VisitAll(guard)
	cmd.Flags().VisitAll(guard)
	for _, below := range cmd.Commands() {
		a.guardFlags(below)
	}
}

// flagValue is the value of an option, with the way in before it.
type flagValue struct {
	pflag.Value
	a    *app
	name string
}

// Set keeps an error for the command: the one of pflag would have the value in it, which may be a password.
func (v *flagValue) Set(text string) error {
	parts := []string{text}
	if v.Type() == "stringSlice" {
		parts = strings.Split(text, ",")
	}
	for i := range parts {
		part, err := v.a.accept(v.name, parts[i])
		if err != nil {
			v.a.refused = err
			return nil
		}
		parts[i] = part
	}
	return v.Value.Set(strings.Join(parts, ","))
}

// readText reads a file of lines, without the byte order mark that editors put before them.
func readText(path string) (string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	if bytes.HasPrefix(text, []byte("\xff\xfe")) || bytes.HasPrefix(text, []byte("\xfe\xff")) {
		return "", fmt.Errorf("%s is UTF-16: write it as UTF-8", path)
	}
	return strings.TrimPrefix(string(text), "\ufeff"), nil
}
