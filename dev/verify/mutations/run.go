package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"time"
)

// A test command that takes longer than limit has caught nothing: on a busy machine any
// may. Without a bug many tests are in one command.
const (
	limit     = 4 * time.Minute
	baseLimit = 20 * time.Minute
)

// result is what became of a mutation.
type result struct {
	*mutation
	by      string // the test that caught it
	line    string // what it said first
	err     error  // it survived, or could not be tried
	checked bool   // only: it applies and compiles
	took    time.Duration
}

// goCommand runs go in the copy, without the workspace: as a user of the module would.
func (t *tree) goCommand(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = t.dir
	cmd.Env = append(os.Environ(), "GOWORK=off")
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

// test runs a test command. An error says that it told nothing.
func (t *tree) test(ctx context.Context, c command, limit time.Duration) (*outcome, error) {
	var said, complaints bytes.Buffer
	cmd := t.goCommand(ctx, c.args(limit)...)
	cmd.Stdout, cmd.Stderr = &said, &complaints
	failure := cmd.Run()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	o, err := read(&said)
	switch exit := (*exec.ExitError)(nil); {
	case err != nil:
		return nil, err
	case o.noBuild != "":
		return o, errors.New(o.noBuild)
	case o.timedOut:
		return o, fmt.Errorf("it took longer than %v: %s", limit, c)
	case failure != nil && !errors.As(failure, &exit):
		return o, failure
	case failure != nil && len(o.failed) == 0:
		return o, fmt.Errorf("%s: %w: %s", c, failure, lastLine(o.output+complaints.String()))
	case failure == nil:
		without, err := unmatched(c.pattern, o.tests)
		if err != nil {
			return o, err
		}
		if len(without) > 0 {
			return o, fmt.Errorf("no test ran for %s of %s", strings.Join(without, ", "), c)
		}
	}
	return o, nil
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

// try puts the bug into the copy, runs its tests until one fails, and takes it out.
func (t *tree) try(ctx context.Context, m *mutation) (r result) {
	r.mutation = m
	begin := time.Now()
	defer func() {
		r.took = time.Since(begin)
		if err := t.restore(m); r.err == nil {
			r.err = err
		}
	}()
	if r.err = t.apply(ctx, m); r.err != nil {
		return r
	}
	for _, c := range m.tests {
		o, err := t.test(ctx, c, limit)
		if err != nil {
			r.err = err
			return r
		}
		if len(o.failed) > 0 {
			r.by, r.line = o.failed[0], o.line
			return r
		}
	}
	r.err = errors.New("SURVIVED: no test failed")
	return r
}

// tryAll tries each mutation in one of the copies, as many at a time as there are copies,
// and says what became of each as it comes.
func tryAll(ctx context.Context, trees []*tree, all []*mutation, try func(context.Context, *tree, *mutation) result) []result {
	results := make([]result, len(all))
	next := make(chan int)
	var mu sync.Mutex
	done := 0
	var workers sync.WaitGroup
	for _, t := range trees {
		workers.Go(func() {
			for i := range next {
				results[i] = try(ctx, t, all[i])
				mu.Lock()
				if done++; ctx.Err() == nil {
					fmt.Printf("%d/%d %s\n", done, len(all), results[i])
				}
				mu.Unlock()
			}
		})
	}
	for i := range all {
		if ctx.Err() == nil {
			next <- i
		}
	}
	close(next)
	workers.Wait()
	return results
}

// base runs the tests without any bug. What fails is run once more: the machine may
// have been too busy for it.
func (t *tree) base(ctx context.Context, cs []command) error {
	for _, c := range grouped(cs) {
		begin := time.Now()
		o, err := t.test(ctx, c, baseLimit)
		if err != nil {
			return err
		}
		for _, test := range o.failed {
			again := c
			again.pattern = "^" + strings.ReplaceAll(regexp.QuoteMeta(test), "/", "$/^") + "$"
			fmt.Printf("  %s failed without a bug, once more: %s\n", test, o.line)
			if o, err := t.test(ctx, again, limit); err != nil || len(o.failed) > 0 {
				return fmt.Errorf("%s fails without a bug: %s %v", again, o.line, err)
			}
		}
		if without, err := unmatched(c.pattern, o.tests); err != nil || len(without) > 0 {
			return fmt.Errorf("no test ran for %s of %s (%v)", strings.Join(without, ", "), c, err)
		}
		fmt.Printf("without a bug: %d tests of %s pass (%.0f s)\n", len(o.tests), c.pkg, time.Since(begin).Seconds())
	}
	return nil
}
