package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

func main() {
	short := flag.Bool("short", false, "only look whether the patches apply and compile, and run the few that need no server")
	base := flag.Bool("base", false, "only run the tests, without any bug")
	refresh := flag.Bool("refresh", false, "only make the patches fit the code as it is now, where what is around the bugs has changed")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *short, *base, *refresh, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "mutations:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, short, onlyBase, refresh bool, names []string) error {
	root, err := repository(ctx)
	if err != nil {
		return err
	}
	all, err := load(filepath.Join(root, "dev", "verify", "mutations", "patches"), names)
	if err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "rowlock-mutations-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	t, err := copyTree(ctx, root, filepath.Join(folder, "tree"))
	if err != nil {
		return err
	}
	if refresh {
		return t.refresh(ctx, all)
	}
	begin := time.Now()
	var tests []command
	for _, m := range all {
		if !short || m.short {
			tests = append(tests, m.tests...)
		}
	}
	broken := t.base(ctx, tests)
	if onlyBase || broken != nil {
		return broken
	}
	var compiled map[string]error
	if short {
		if compiled, err = t.compile(ctx, all); err != nil {
			return err
		}
	}
	trees := []*tree{t}
	if short { // their tests need no server, and compute more than they wait
		second, err := copyTree(ctx, root, filepath.Join(folder, "second"))
		if err != nil {
			return err
		}
		trees = append(trees, second)
	}
	results := tryAll(ctx, trees, all, func(ctx context.Context, t *tree, m *mutation) result {
		if err := compiled[m.name]; err != nil || short && !m.short {
			return result{mutation: m, err: err, checked: true}
		}
		return t.try(ctx, m)
	})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	failed := 0
	for _, r := range results {
		if r.err != nil {
			failed++
		}
	}
	fmt.Println()
	table(os.Stdout, results)
	fmt.Printf("\n%d mutations, %d failed, %.0f s\n", len(all), failed, time.Since(begin).Seconds())
	if failed > 0 {
		return errors.New("some mutations survived or could not be tried")
	}
	return nil
}

// repository is its root, from anywhere in it.
func repository(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "git", "rev-parse", "--show-toplevel").Output()
	if err != nil {
		return "", fmt.Errorf("not in a clone of the repository: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}
