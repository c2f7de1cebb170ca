package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rowlock/rowlock/dev/testenv"
	"github.com/rowlock/rowlock/dev/verify/check"
	"github.com/rowlock/rowlock/dev/verify/fault"
	"github.com/rowlock/rowlock/dev/verify/report"
	"github.com/rowlock/rowlock/dev/verify/round"
)

// run runs the rounds of all servers and writes the report.
func run(ctx context.Context, p plan) error {
	if err := os.MkdirAll(p.out, 0o755); err != nil {
		return err
	}
	all := report.New(asked(os.Args[1:]))
	var failed error
	var mu sync.Mutex
	var servers sync.WaitGroup
	slots := make(chan struct{}, p.parallel)
	for _, kind := range p.kinds {
		slots <- struct{}{}
		if ctx.Err() != nil {
			break
		}
		servers.Go(func() {
			defer func() { <-slots }()
			err := serve(ctx, p, kind, all)
			mu.Lock()
			defer mu.Unlock()
			failed = errors.Join(failed, err)
		})
	}
	servers.Wait()
	text := all.Markdown()
	if err := os.WriteFile(filepath.Join(p.out, "report.md"), []byte(text), 0o644); err != nil {
		return err
	}
	fmt.Printf("\n%s\nThis is in %s too.\n", text, filepath.Join(p.out, "report.md"))
	if p.docs != "" {
		err := document(filepath.Join(p.docs, docsPage), docsResults, all.Summary())
		err = errors.Join(err, document(filepath.Join(p.docs, docsDetails), docsResults, all.Faults()))
		if err != nil {
			return err
		}
	}
	// Once more, because the end of a long output is what people read, and what logs keep.
	first(all.Found(), func(line string) { say("VIOLATION: %s", line) })
	if n := all.Violations(); n > 0 {
		failed = errors.Join(failed, fmt.Errorf("%d violations", n))
	}
	lost := all.Failed()
	first(lost, func(cause string) {
		cause, _, _ = strings.Cut(cause, "\n") // clients' logs follow
		say("NOT JUDGED: %s", cause)
	})
	if len(lost) > 0 {
		failed = errors.Join(failed, fmt.Errorf("%d rounds could not be run or judged", len(lost)))
	}
	return failed
}

// asked is the command without what says where its results go.
func asked(args []string) string {
	words := []string{"verify"}
	for i := 0; i < len(args); i++ {
		name, _, whole := strings.Cut(strings.TrimLeft(args[i], "-"), "=")
		if name != "docs" && name != "out" {
			words = append(words, args[i])
		} else if !whole {
			i++
		}
	}
	return strings.Join(words, " ")
}

// serve runs the rounds of one server.
func serve(ctx context.Context, p plan, kind testenv.Kind, all *report.Report) error {
	faults, err := p.choose(kind)
	if err != nil {
		return err
	}
	l, err := openLab(ctx, kind, p.seed)
	if err != nil {
		return err
	}
	defer func() {
		if l != nil {
			_ = l.Close()
		}
	}()
	say("%s: %s, %d kinds of faults", kind, l.Server(), len(faults))
	end := time.Now().Add(p.duration)
	injected := 0
	for n := 0; ctx.Err() == nil && (p.rounds > 0 && n < p.rounds || p.rounds == 0 && (n == 0 || time.Until(end) > p.round/2)); n++ {
		c := p.config(kind, faults, p.seed+uint64(n))
		r, err := round.Run(ctx, l, c)
		if ctx.Err() != nil {
			return errors.New("interrupted")
		}
		if err != nil {
			say("%s round %d: %v", kind, n+1, err)
			all.Fail(kind, err)
		} else {
			say("%s round %d %s", kind, n+1, r.Line())
			tell(r.Violations)
			if len(r.Violations) > 0 {
				say("  what happened, with pictures: %s", filepath.Join(r.Folder, check.ReportFolder))
				say("  again: %s", c.Command)
			}
			all.Add(l.Server(), r)
			injected += r.Injected()
		}
		if err == nil {
			err = r.Broken
		}
		if err == nil {
			continue
		}
		say("%s: starting a new server after: %v", kind, err)
		all.Anew(kind)
		_ = l.Close()
		if l, err = openLab(ctx, kind, c.Seed+1); err != nil {
			return err
		}
	}
	if len(p.faults) > 0 && len(faults) > 0 && injected == 0 {
		return fmt.Errorf("%s: none of the faults %s was injected", kind, strings.Join(p.faults, ", "))
	}
	return nil
}

// openLab starts a server, at the third try at last: a cluster's members may not find each other in time on a busy machine.
func openLab(ctx context.Context, kind testenv.Kind, seed uint64) (*round.Lab, error) {
	var failed error
	for range 3 {
		l, err := round.OpenLab(ctx, kind, seed)
		if err == nil {
			return l, nil
		}
		say("%s: %v", kind, err)
		if failed = err; ctx.Err() != nil {
			break
		}
	}
	return nil, failed
}

// config is that of a round.
func (p plan) config(kind testenv.Kind, faults []fault.Fault, seed uint64) round.Config {
	r := rand.New(rand.NewPCG(seed, 0))
	lines := 1 // in half of the rounds, to see what each fault does by itself
	if r.IntN(2) == 0 {
		lines += r.IntN(p.lines)
	}
	if len(p.faults) == 0 && r.IntN(8) == 0 {
		faults = nil // to see whether everybody gets a turn
	}
	command := fmt.Sprintf("verify run -servers %s -seed %#x -rounds 1 -round %v", kind, seed, p.round)
	if len(p.faults) > 0 {
		command += " -faults " + strings.Join(p.faults, ",")
	}
	if p.bug != "" {
		command += " -break " + p.bug
	}
	if p.other != "" {
		command += " -other " + p.other
	}
	// A stepped clock excuses much for the rest of its round, so most rounds are without.
	if steps := func(f fault.Fault) bool { return slices.Contains(f.Uses, fault.Clock) }; len(p.faults) == 0 && r.IntN(3) > 0 {
		faults = slices.DeleteFunc(slices.Clone(faults), steps)
	}
	ttl := 1500*time.Millisecond + time.Duration(r.IntN(4))*500*time.Millisecond
	if p.ttl > 0 {
		ttl = p.ttl
		command += " -ttl " + p.ttl.String()
	}
	return round.Config{
		Seed: seed, Duration: p.round, Faults: faults, Lines: lines, Gap: p.gap, Peace: 3 * time.Second,
		TTL: ttl, Hot: p.hot, Light: p.light, Modes: p.modes, Break: p.bug, Other: p.other, Out: p.out, Keep: p.keep, Command: command,
	}
}

// judge checks a history that was kept.
func judge(folder string) error {
	violations, err := round.Judge(folder)
	if err != nil {
		return err
	}
	tell(violations)
	if len(violations) > 0 {
		return fmt.Errorf("%d violations", len(violations))
	}
	say("nothing is violated")
	return nil
}

// tell shows the first violations.
func tell(violations []check.Violation) {
	first(violations, func(v check.Violation) {
		say("  VIOLATION of %s (%s), %s %s: %s", v.Promise, v.Checker, v.Space, v.Key, v.Text)
	})
}

// first shows the first of many, and says how many more there are.
func first[T any](all []T, show func(T)) {
	for i, one := range all {
		if i == 10 {
			say("  and %d more", len(all)-i)
			return
		}
		show(one)
	}
}

var saying sync.Mutex

func say(format string, args ...any) {
	saying.Lock()
	defer saying.Unlock()
	fmt.Printf(format+"\n", args...)
}
