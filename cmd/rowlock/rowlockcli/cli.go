// Package rowlockcli has the commands of the program rowlock. A program that has its locks in a
// store of its own can mount them under its own command line:
//
//	root.AddCommand(rowlockcli.New(rowlockcli.Config{
//		Name: "locks",
//		Open: func(context.Context) (driver.Store, func(), error) { return store, func() {}, nil },
//	}))
//
// The errors of these commands carry the exit code of the process: see [ExitCode].
package rowlockcli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rowlock/rowlock/driver"
)

// Config says how the commands are mounted. The zero value is the program rowlock.
type Config struct {
	// Name is that of the command above all others. Default rowlock.
	Name string

	// Open gives the store of the locks, and a function that is called when it is no longer
	// needed. With it the commands have no options that say where the locks are. Default: by these
	// options, by the environment or by a file.
	Open func(context.Context) (driver.Store, func(), error)
}

const rootLong = `Runs commands under a lock that is kept in MySQL, MariaDB or MongoDB, and shows and mends such locks.`

const rootDatabase = `

--db says where the locks are, or the variable ROWLOCK_DB, or a line "db = URL" in the file --config,
ROWLOCK_CONFIG, ~/.config/rowlock/config or /etc/rowlock/config. A URL is one of

  mysql://user@host:3306/database         the tables are in that database; also mariadb://
  mongodb://user@host:27017/database      the collection --collection is in that database; also mongodb+srv://
  user@tcp(host:3306)/database            the form of the Go driver for MySQL

The password is best not in a URL, and not on the command line, where others see it: set ROWLOCK_PASSWORD,
or name a file by --password-file. White space at the ends of a value, as the newline of a secret that was made
of a file, is cut off, with a warning.`

// New makes the command with all others below it.
func New(c Config) *cobra.Command {
	if c.Name == "" {
		c.Name = "rowlock"
	}
	a := &app{config: c}
	root := &cobra.Command{
		Use:           c.Name,
		Short:         "Run commands under a lock in MySQL, MariaDB or MongoDB; show and mend locks",
		Long:          rootLong,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          unknownCommand,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	if c.Open == nil {
		root.Long += rootDatabase
	}
	root.SetFlagErrorFunc(flagError)
	a.addFlags(root.PersistentFlags())
	root.AddCommand(a.runCommand(), a.guardCommand(),
		a.lsCommand(), a.showCommand(), a.watchCommand(), a.waitCommand(), a.freeCommand(), a.reapCommand(), a.runsCommand(),
		a.migrateCommand(), a.grantsCommand(), a.doctorCommand(), a.uiCommand(), a.versionCommand())
	root.SetHelpFunc(a.showHelp)
	arrange(root)
	a.guardFlags(root)
	return root
}

// Main is the program rowlock: it runs the command line, and returns the exit code.
func Main() int { return execute(New(Config{})) }

func execute(root *cobra.Command) (code int) {
	defer func() {
		if p := recover(); p != nil {
			fmt.Fprintf(os.Stderr, "rowlock: a mistake in this program: %v\n%s", p, debug.Stack())
			code = exitBug
		}
	}()
	err := root.Execute()
	if err == nil {
		return 0
	}
	if text := err.Error(); text != "" {
		sayLast(text)
	}
	return ExitCode(err)
}

// app is what the commands share.
type app struct {
	config   Config
	flags    flags
	stderr   io.Writer
	secrets  []string  // passwords, which are taken out of every message
	notes    []string  // warnings about values from outside
	noting   bool      // they are said
	refused  error     // an option has a value that cannot be used
	resolved *settings // nil: not yet
}

// say writes a line on stderr.
func (a *app) say(format string, args ...any) {
	fmt.Fprintln(a.stderr, "rowlock: "+a.clean(fmt.Sprintf(format, args...)))
}

func (a *app) warn(text string) { a.say("warning: %s", text) }

// detail says something that is of interest with --verbose only.
func (a *app) detail(format string, args ...any) {
	if a.flags.verbose {
		a.say(format, args...)
	}
}

// clean takes passwords out of a text. The address is written without them anyway; this is for
// messages of others, who may have been given the address.
func (a *app) clean(text string) string {
	for _, s := range a.secrets {
		if len(s) > 3 { // a shorter one would make holes in every word
			text = strings.ReplaceAll(text, s, "***")
		}
	}
	return text
}

// command wraps what a command does: its error says what to do, and has no password in it.
func (a *app) command(do func(cmd *cobra.Command, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		a.stderr = cmd.ErrOrStderr()
		if cmd.Name() != "run" { // which may be two processes
			a.sayNotes()
		}
		err := a.refused
		if err == nil {
			err = do(cmd, args)
		}
		if err == nil {
			return nil
		}
		text := err.Error()
		if text == "" {
			return err
		}
		return &ExitError{Code: ExitCode(err), Err: message{a.clean(text + advice(err)), err}}
	}
}

// message is an error with another text.
type message struct {
	text string
	err  error
}

// quiet is an error of which nothing is said.
type quiet struct{ error }

func (q quiet) Error() string { return "" }
func (q quiet) Unwrap() error { return q.error }

func (m message) Error() string { return m.text }
func (m message) Unwrap() error { return m.err }

var errNoDatabase = errors.New("no database is named: use --db URL, ROWLOCK_DB, or a line \"db = URL\" in a file (see rowlock --help)")

// errPassDB: this rowlock is in the command of another, whose address may be in that one's environment only.
var errPassDB = errors.New("no database is named here: rowlock run around this command took ROWLOCK_DB out of its environment: use --pass-db there, or a line \"db = URL\" in a file")
