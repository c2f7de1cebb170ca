package rowlockcli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/cmd/rowlock/internal/guard"
	"github.com/rowlock/rowlock/internal/words"
)

// run is one call of rowlock run.
type run struct {
	*app
	f       runFlags
	key     string
	command []string
	guard   []string // the command line of the guard

	path    string // of the command
	store   *opened
	locks   *rowlock.Client
	lease   *rowlock.Lease
	signals chan os.Signal
	health  *health   // nil without --http
	began   time.Time // this program
	gotAt   time.Time // the key
	runID   string    // of --run or --period; empty: none

	closeWait time.Duration // for what is still under way at the end
}

func (r *run) do(ctx context.Context) (err error) {
	r.began = time.Now()
	if r.path, err = lookUp(r.command[0]); err != nil {
		return err
	}
	if r.store, err = r.open(ctx); err != nil {
		return err
	}
	defer r.store.close()
	if err := r.checkStack(); err != nil {
		return err
	}
	r.locks, err = rowlock.New(r.store.Store, rowlock.Options{TTL: time.Duration(r.f.ttl), Owner: r.f.owner, Logger: r.logger(), Handoff: -1})
	if err != nil {
		return err
	}
	r.closeWait = 3 * time.Second
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), r.closeWait)
		defer cancel()
		_ = r.locks.Close(ctx) // what could not be taken back ends by its TTL
	}()
	if r.f.http != "" {
		if r.health, err = startHealth(r); err != nil {
			return err
		}
		defer r.health.close()
	}
	r.signals = make(chan os.Signal, 16)
	listen(r.signals, whileWaiting)
	defer signal.Stop(r.signals)
	if err := r.acquire(ctx); err != nil {
		if errors.Is(err, rowlock.ErrHeld) {
			r.noteSkipped()
		}
		return err
	}
	r.gotAt = time.Now()
	defer func() {
		if lost := r.lease.Release(context.Background()); lost != nil && err == nil {
			err = &ExitError{Code: exitLost, Err: fmt.Errorf("the lease of %q was lost before the command ended, which may not have been alone: %w", r.key, lost)}
		}
	}()
	if err := r.beginRun(); errors.Is(err, errRanBefore) {
		r.noteSkipped()
		if r.f.skip && !r.flags.verbose {
			return &ExitError{Code: r.f.ranCode}
		}
		return &ExitError{Code: r.f.ranCode, Err: err}
	} else if err != nil {
		return err
	}
	r.noteStart()
	start := time.Now()
	err = r.execute()
	if err == nil {
		err = r.endRun()
	}
	r.noteEnd(time.Since(start), ExitCode(err))
	return err
}

// lookUp finds the command's program as sh would.
func lookUp(name string) (string, error) {
	path, err := exec.LookPath(name)
	switch {
	case err == nil, errors.Is(err, exec.ErrDot):
		return path, nil
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		return "", &ExitError{Code: exitNotFound, Err: fmt.Errorf("the command %q was not found: look at its name and at PATH", name)}
	}
	return "", &ExitError{Code: exitNotRunnable, Err: fmt.Errorf("the command %q cannot be executed: %w", name, err)}
}

// listen has signals delivered; those that were ignored when the program was started stay so.
func listen(c chan os.Signal, signals []os.Signal) {
	for _, s := range signals {
		if !signal.Ignored(s) {
			signal.Notify(c, s)
		}
	}
}

// acquire waits for the key.
func (r *run) acquire(parent context.Context) error {
	ctx, cancel := context.WithCancel(parent)
	defer cancel()
	switch {
	case r.f.noWait:
		ctx, cancel = context.WithTimeout(ctx, time.Duration(r.flags.timeout))
		defer cancel()
	case r.f.waitSet:
		ctx, cancel = context.WithTimeout(ctx, time.Duration(r.f.wait))
		defer cancel()
	}
	options := []rowlock.Option{rowlock.MinHold(time.Duration(r.f.minHold)), rowlock.MaxHold(time.Duration(r.f.maxHold))}
	if r.f.shared {
		options = append(options, rowlock.Shared())
	}
	if r.f.slots > 0 {
		options = append(options, rowlock.Slots(r.f.slots))
	}
	if r.f.fair {
		options = append(options, rowlock.Fair())
	}
	if r.f.noWait {
		options = append(options, rowlock.NoWait())
	}
	if r.f.marks() {
		options = append(options, rowlock.Guarded())
	}
	got := make(chan error, 1)
	go func() {
		var err error
		r.lease, err = r.locks.Acquire(ctx, r.key, options...)
		got <- err
	}()
	for {
		select {
		case err := <-got:
			return r.notAcquired(err)
		case s := <-r.signals:
			cancel()
			r.closeWait = 500 * time.Millisecond // who sends a signal wants the end now
			if err := <-got; err == nil {
				_ = r.lease.Release(context.Background())
			}
			return &ExitError{Code: signalCode(s)}
		}
	}
}

// notAcquired is the error of an acquire with its exit code.
func (r *run) notAcquired(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, rowlock.ErrHeld):
		if r.f.skip && !r.flags.verbose {
			return &ExitError{Code: r.f.conflict, Err: quiet{err}}
		}
		who := r.whoHas(err)
		after := "the command was not run"
		if !r.f.noWait {
			after = fmt.Sprintf("it was not free within %s, and the command was not run", short(time.Duration(r.f.wait)))
		}
		return &ExitError{Code: r.f.conflict, Err: message{fmt.Sprintf("%q is %s: %s (does its holder live? rowlock show %q)", r.key, who, after, r.key), err}}
	}
	return &ExitError{Code: ExitCode(err), Err: fmt.Errorf("the command was not run: %s: %w", r.store.where, err)}
}

// whoHas says why the key was not got, as the end of a sentence: "report" is …
func (r *run) whoHas(err error) string {
	var held *rowlock.HeldError
	if errors.As(err, &held) && held.Waiting > 0 {
		return fmt.Sprintf("not free for this call: %s for it and came first (--fair)", words.Count(held.Waiting, "program waits", "programs wait"))
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(r.flags.timeout))
	defer cancel()
	infos, err := r.store.Inspect(ctx, []string{r.key})
	if err != nil || len(infos) != 1 {
		return "held"
	}
	if held != nil && held.Pinned && stateOf(infos[0]) == "free" {
		infos[0].Pinned = true // in MongoDB only who asks for the key sees that
	}
	if r.f.slots > 0 && stateOf(infos[0]) == "kept" {
		return fmt.Sprintf("without a free slot: each is kept for up to %s more (--min-hold)", short(infos[0].Left))
	}
	return describe(infos[0])
}

func signalCode(s os.Signal) int {
	if n, ok := s.(syscall.Signal); ok {
		return exitSignal + int(n)
	}
	return exitSignal
}

// until is until when the lease is trusted, by the guard's clock.
func (r *run) until() time.Duration {
	now := guard.Now() // before Left: late is wrong, early is not
	return now + r.lease.Left()
}
