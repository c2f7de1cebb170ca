// Package program is what the main functions of the examples have in common.
package program

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
)

// Main runs a program and, unless all went well, exits: with code 2 if its flags
// are wrong, with code 1 if run fails or Ctrl-C ends its context.
func Main[P any](name string, parse func(args []string) (P, error), run func(plan P, ctx context.Context, out io.Writer) error) {
	plan, err := parse(os.Args[1:])
	switch {
	case errors.Is(err, flag.ErrHelp):
		return
	case err != nil:
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err = run(plan, ctx, os.Stdout)
	if err != nil && ctx.Err() != nil {
		err = errors.New("interrupted") // whatever broke off because of that
	}
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}

// Flags parses the arguments of a program that has flags only, and tells which
// were given.
func Flags(f *flag.FlagSet, args []string) (given map[string]bool, err error) {
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	if f.NArg() > 0 {
		return nil, fmt.Errorf("%q: there are flags only; see -help", f.Arg(0))
	}
	given = map[string]bool{}
	f.Visit(func(f *flag.Flag) { given[f.Name] = true })
	return given, nil
}
