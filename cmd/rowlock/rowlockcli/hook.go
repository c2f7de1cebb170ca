package rowlockcli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"time"
)

// hookTime bounds the command of --on-fail.
const hookTime = 30 * time.Second

// The variables of the command of --on-fail.
const (
	envReason   = "ROWLOCK_REASON"
	envExitCode = "ROWLOCK_EXIT_CODE"
	envMessage  = "ROWLOCK_MESSAGE"
)

const shell = "/bin/sh"

// checkHook refuses --on-fail where there is no shell.
func (f *runFlags) checkHook() error {
	if f.onFail == "" {
		return nil
	}
	if _, err := exec.LookPath(shell); err != nil {
		return invalid("--on-fail needs %s, which this machine does not have: leave it out, and look at the exit code of rowlock run", shell)
	}
	return nil
}

// onFail runs the command of --on-fail if something was wrong with the lock, and waits for it. No process of the run's own
// command lives then, and no key is held: the hook delays neither. Its own failure is one line, and changes no exit code.
func (r *run) onFail(err error) {
	reason := failure(err)
	if r.f.onFail == "" || reason == "" || reason == reasonHeld && r.f.skip {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), hookTime)
	defer cancel()
	ctx, stop := signal.NotifyContext(ctx, whileWaiting...) // who sends a signal wants the end now
	defer stop()
	cmd := exec.CommandContext(ctx, shell, "-c", r.f.onFail)
	cmd.Env = r.hookEnvironment(reason, err)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr // what is on stdout is the command's
	ownGroup(cmd)
	switch failed := cmd.Run(); {
	case failed == nil:
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		r.warn(fmt.Sprintf("the command of --on-fail did not end within %s, and was killed", short(hookTime)))
	default:
		r.warn("the command of --on-fail: " + failed.Error())
	}
}

// hookEnvironment is ours without the address and password of the database, with what happened.
func (r *run) hookEnvironment(reason string, err error) []string {
	own := []string{
		envOwner + "=" + r.owner(),
		envReason + "=" + reason,
		envExitCode + "=" + fmt.Sprint(ExitCode(err)),
		envMessage + "=" + r.clean(err.Error()),
	}
	own = append(own, keyVariables(r.keys)...)
	return append(without(r.inherited(), namesOf(own)), own...)
}
