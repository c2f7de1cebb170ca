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
	key     string   // KEY
	keys    []string // KEY, and those of --and
	command []string
	guard   []string // the command line of the guard

	path     string // of the command
	store    *opened
	locks    *rowlock.Client
	lease    *hold
	signals  chan os.Signal
	health   *health   // nil without --http
	began    time.Time // this program
	gotAt    time.Time // the key
	firstEnd time.Time // until when the lease was trusted then
	runID    string    // of --run or --period; empty: none

	ping      *pinger // nil without --ping
	cut       bool    // the command was ended because of the lease
	toldToEnd bool    // by a signal, while the command ran
	cutOff    error   // how the last round ended, whose command is started again (--keep-going)

	closeWait time.Duration // for what is still under way at the end
}

// do runs the command, and says how that ended: --ping and --on-fail.
func (r *run) do(ctx context.Context) error {
	r.ping = r.startPinger()
	defer r.ping.close()
	err := r.rounds(ctx)
	r.ended(err)
	return err
}

// ended says how a call of the command ended.
func (r *run) ended(err error) {
	r.ping.end(err)
	r.onFail(err)
}

// rounds runs the command, with --keep-going as often as the lease is lost.
func (r *run) rounds(ctx context.Context) (err error) {
	r.began = time.Now()
	r.noteCall()
	if r.path, err = lookUp(r.command[0]); err != nil {
		return err
	}
	if err := r.splay(); err != nil {
		return err
	}
	if r.store, err = r.openFew(ctx); err != nil {
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
	if err := r.connect(ctx); err != nil {
		return err
	}
	for again := true; again; {
		again, err = r.again(ctx, r.round(ctx))
	}
	return err
}

// round waits for the keys, runs the command, and gives the keys back.
func (r *run) round(ctx context.Context) (err error) {
	if err := r.acquire(ctx); err != nil {
		if r.cutOff != nil {
			return r.notAgain(err)
		}
		if errors.Is(err, rowlock.ErrHeld) {
			r.noteSkipped()
		}
		return err
	}
	r.gotAt = time.Now()
	r.firstEnd = r.gotAt.Add(r.lease.Left())
	took := time.Duration(-1) // the command; below 0: it was not started
	defer func() {            // after the release, which may say that the lease was lost
		if took >= 0 {
			r.noteEnd(took, ExitCode(err))
		}
	}()
	defer func() {
		if lost := r.lease.Release(context.Background()); lost != nil && err == nil && !ofMaxHold(lost) { // who has ended in its time was alone
			err = &ExitError{Code: exitLost, Err: fmt.Errorf("the lease of %s was lost before the command ended, which may not have been alone: %w", quoted(r.keys), lost)}
		}
	}()
	if err := r.secure(); err != nil {
		return err
	}
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
	r.ping.start()
	start := time.Now()
	err = r.execute()
	if err == nil {
		err = r.endRun()
	}
	took = time.Since(start)
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

// acquire waits for the keys.
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
	if r.f.noWait {
		options = append(options, rowlock.NoWait())
	}
	if r.f.marks() {
		options = append(options, rowlock.Guarded())
	}
	r.tellWait(ctx)
	got := make(chan error, 1)
	go func() {
		var err error
		r.lease, err = r.takeAgain(ctx, options)
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
		if unanswered := r.stillHeld(); unanswered != nil {
			return &ExitError{Code: ExitCode(unanswered), Err: fmt.Errorf("the command was not run: %s was held when the database answered last, and now it does not answer: %s: %w", quoted(r.keys), r.store.where, unanswered)}
		}
		if r.f.skip && !r.flags.verbose {
			return &ExitError{Code: r.f.conflict, Err: quiet{err}}
		}
		key, who := r.whoHas(err)
		after := "the command was not run"
		if !r.f.noWait {
			after = fmt.Sprintf("it was not free within %s, and the command was not run", short(time.Duration(r.f.wait)))
		}
		return &ExitError{Code: r.f.conflict, Err: message{fmt.Sprintf("%q is %s: %s (does its holder live? rowlock show %q)", key, who, after, key), err}}
	}
	return &ExitError{Code: ExitCode(err), Err: fmt.Errorf("the command was not run: %s: %w", r.store.where, err)}
}

// whoHas says which key was not got and why, as the end of a sentence: "report" is …
func (r *run) whoHas(err error) (key, why string) {
	key = r.key
	var held *rowlock.HeldError
	if errors.As(err, &held) {
		key = held.Key
	}
	others := ""
	if n := r.othersWait(held); n > 0 {
		others = words.Count(n, "program waits", "programs wait") + " for it"
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(r.flags.timeout))
	defer cancel()
	infos, err := r.store.Inspect(ctx, []string{key})
	if err != nil || len(infos) != 1 {
		return key, "held"
	}
	if others != "" && stateOf(infos[0]) == "free" {
		return key, "not free for this call: " + others + " and came first"
	}
	if held != nil && held.Pinned && stateOf(infos[0]) == "free" {
		infos[0].Pinned = true // in MongoDB only who asks for the key sees that
	}
	if r.f.slots > 0 && stateOf(infos[0]) == "kept" {
		return key, fmt.Sprintf("without a free slot: each is kept for up to %s more (--min-hold)", short(infos[0].Left))
	}
	why = describe(infos[0])
	if others != "" {
		why += "; " + others
	}
	return key, why
}

// othersWait is how many other programs wait for a key that was not got, as far as is known.
func (r *run) othersWait(held *rowlock.HeldError) int {
	switch {
	case held == nil:
		return 0
	case !r.f.noWait && r.store.Limits().Line: // this one is counted, too
		return max(held.Waiting-1, 0)
	}
	return held.Waiting
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
