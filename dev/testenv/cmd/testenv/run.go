package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"sync"
	"time"

	"github.com/rowlock/rowlock/dev/testenv"
	"github.com/spf13/cobra"
)

func runCommand() *cobra.Command {
	var servers []string
	cmd := &cobra.Command{
		Use:   "run [--servers mysql,mariadb,mongo] -- command [args…]",
		Short: "Run a command with servers: their addresses are in its environment",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			kinds, err := parseKinds(servers)
			if err != nil {
				return err
			}
			return run(kinds, args)
		},
	}
	serversFlag(cmd, &servers)
	cmd.Flags().SetInterspersed(false) // the command's flags are its own
	return cmd
}

// run starts the servers side by side, then the command. It removes the servers, whatever happens.
func run(kinds []testenv.Kind, command []string) error {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, endSignals...)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()

	env, err := testEnviron()
	if err != nil {
		return err
	}
	servers, err := startAll(ctx, kinds, signals, cancel)
	defer closeAll(servers)
	if err != nil {
		return err
	}
	for _, s := range servers {
		env = append(env, s.Kind().Variable()+"="+s.DSN())
	}
	code, err := runChild(command, env, signals)
	if err != nil {
		return err
	}
	if code != 0 {
		return exitCode(code)
	}
	return nil
}

// testEnviron is the command's environment, the servers excepted.
func testEnviron() ([]string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return append(os.Environ(), "ROWLOCK_TEST_SERVER="+self, "ROWLOCK_TEST_MUST_RUN=1"), nil
}

// startAll starts the servers and says so, one line each. A signal ends the wait.
func startAll(ctx context.Context, kinds []testenv.Kind, signals <-chan os.Signal, cancel func()) ([]*testenv.Server, error) {
	found := make([]*testenv.Server, len(kinds))
	errs := make([]error, len(kinds))
	said := make([]string, len(kinds)) // when all is there: not into a line about a download
	slow, err := testenv.SlowSync()
	if err != nil {
		return nil, err
	}
	var all sync.WaitGroup
	for i, kind := range kinds {
		if kind.Variable() == "" {
			return nil, fmt.Errorf("testenv: %s has no variable; tests start it by themselves", kind)
		}
		all.Go(func() {
			begin := time.Now()
			s, err := testenv.Find(ctx, kind)
			if err != nil {
				errs[i] = err
				return
			}
			found[i] = s
			if slow > 0 && s.Source() == testenv.Env {
				errs[i] = fmt.Errorf("testenv: ROWLOCK_TEST_SYNC slows servers that are started here, and %s names a running one", kind.Variable())
				return
			}
			said[i] = fmt.Sprintf("testenv: %-8s %-28s ready after %.1f s (%s)\n", kind, s.Version(), time.Since(begin).Seconds(), s.Source())
		})
	}
	ready := make(chan struct{})
	go func() { all.Wait(); close(ready) }()
	var interrupted error
	select {
	case <-ready:
	case sig := <-signals:
		interrupted = exitCode(128 + signalNumber(sig))
		cancel()
		<-ready
	}
	fmt.Fprint(os.Stderr, strings.Join(said, ""))
	var servers []*testenv.Server
	for _, s := range found {
		if s != nil {
			servers = append(servers, s)
		}
	}
	if interrupted != nil {
		return servers, interrupted
	}
	return servers, errors.Join(errs...)
}

func closeAll(servers []*testenv.Server) {
	var all sync.WaitGroup
	for _, s := range servers {
		all.Go(func() {
			if err := s.Close(); err != nil {
				fmt.Fprintf(os.Stderr, "testenv: close %s: %v\n", s.Kind(), err)
			}
		})
	}
	all.Wait()
}
