package rowlockcli

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
)

// checkKeepGoing refuses what does not go with --keep-going.
func (f *runFlags) checkKeepGoing() error {
	switch {
	case !f.keepGoing:
	case f.noWait:
		return invalid("--keep-going waits for the key again after a loss, and -n, and -x without -w, do not wait: use -w TIME with it")
	case f.marks() && f.mark == "start":
		return invalid("--mark start makes a run at most once, and --keep-going would start it again: use --mark success, or leave --keep-going out")
	}
	return nil
}

// again reports whether the run, whose command was ended with its lease, waits for the keys and starts the
// command again (--keep-going). end is not nil where a signal came meanwhile.
func (r *run) again(ctx context.Context, err error) (again bool, end error) {
	if !r.f.keepGoing || !r.cut || r.toldToEnd {
		return false, err
	}
	r.cut = false
	r.ended(err)
	signal.Stop(r.signals) // those that are for the command alone
	listen(r.signals, whileWaiting)
	r.say("%v; %s is waited for, and the command started again (--keep-going)", err, quoted(r.keys))
	r.cutOff = err
	// As Lead does: others may come first.
	pause := time.NewTimer(time.Duration(r.f.ttl)/15 + rand.N(time.Duration(r.f.ttl)/15))
	defer pause.Stop()
	for {
		select {
		case <-pause.C:
			return true, nil
		case <-ctx.Done():
			return false, err
		case s := <-r.signals:
			if endsRun(s) || s == syscall.SIGHUP {
				return false, &ExitError{Code: signalCode(s)}
			}
		}
	}
}

const (
	// The time between two tries of what the database refuses.
	firstRefused = time.Second
	lastRefused  = 10 * time.Second
)

// takeAgain is take, which after a loss waits out what the database refuses, too: a password that is rotated, or a privilege that is
// missing for a while, is no end of a command that has run before.
func (r *run) takeAgain(ctx context.Context, options []rowlock.Option) (*hold, error) {
	var said time.Time
	for pause := firstRefused; ; pause = min(2*pause, lastRefused) {
		got, err := r.take(ctx, options)
		if r.cutOff == nil || !driver.IsLasting(err) || errors.Is(err, driver.ErrInvalid) || errors.Is(err, driver.ErrClosed) {
			return got, err
		}
		if time.Since(said) >= nextNotice {
			said = time.Now()
			r.say("%v; mend that: it is tried again (--keep-going)", err)
		}
		select {
		case <-time.After(pause*2/3 + rand.N(pause*2/3)):
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", ctx.Err(), err)
		}
	}
}

// endsRun reports whether who sends a signal wants the command to end. HUP often means something else to it.
func endsRun(s os.Signal) bool {
	return s == syscall.SIGTERM || s == syscall.SIGINT || s == syscall.SIGQUIT
}

// notAgain is the error of a wait for the keys after a loss: the command was run, and ended with its lease.
func (r *run) notAgain(err error) error {
	var exit *ExitError
	if errors.As(err, &exit) && exit.Err == nil {
		return err // a signal
	}
	var q quiet
	if errors.As(err, &q) {
		err = q.error
	}
	return &ExitError{Code: ExitCode(r.cutOff), Err: fmt.Errorf("%w, and not started again: %w", r.cutOff, err)}
}
