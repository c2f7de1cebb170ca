package rowlockcli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
)

// markWait bounds what is asked and written about the mark of a run.
const markWait = 30 * time.Second

// errRanBefore says that the run has its mark: the command is not run.
var errRanBefore = errors.New("ran before")

// marks reports whether the run is marked.
func (f *runFlags) marks() bool { return f.runID != "" || f.period > 0 }

// beginRun looks whether the run was made before, and marks it with --mark start.
func (r *run) beginRun() error {
	if !r.f.marks() {
		return nil
	}
	ctx, cancel := context.WithTimeout(r.lease.Context(context.Background()), markWait)
	defer cancel()
	r.runID = r.f.runID
	if r.f.period > 0 {
		if err := r.periodRun(ctx); err != nil {
			return err
		}
	}
	nothing := error(nil)
	if r.f.mark == "success" {
		nothing = errLook // the transaction is undone, and there is no mark
	}
	err := r.store.once(ctx, r.lease, r.runID, func() error { return nothing })
	switch {
	case errors.Is(err, rowlock.ErrAlreadyRan):
		return fmt.Errorf("%w: the run %q of %q", errRanBefore, r.runID, r.key)
	case err == nil, errors.Is(err, errLook):
		// The transaction has taken over one of the few connections: it is opened again before the command starts, for the mark at its end.
		_, _ = r.store.Inspect(ctx, []string{r.key})
		return nil
	}
	return &ExitError{Code: ExitCode(err), Err: fmt.Errorf("the command was not run, because it is not known whether the run %q of %q was made before: %s: %w", r.runID, r.key, r.store.where, err)}
}

var errLook = errors.New("only a look")

// endRun marks a run that ended well.
func (r *run) endRun() error {
	if !r.f.marks() || r.f.mark != "success" {
		return nil
	}
	ctx, cancel := context.WithTimeout(r.lease.Context(context.Background()), markWait)
	defer cancel()
	err := r.store.once(ctx, r.lease, r.runID, func() error { return nil })
	if err == nil || errors.Is(err, rowlock.ErrAlreadyRan) { // by somebody who did not ask for the lock
		return nil
	}
	code := ExitCode(err)
	switch {
	case ofMaxHold(err):
		code = exitMaxHold
	case errors.Is(err, rowlock.ErrLost):
		code = exitLost
	}
	return &ExitError{Code: code, Err: fmt.Errorf("the command ended well, but the run %q of %q could not be marked, and may be made again: %s: %w", r.runID, r.key, r.store.where, err)}
}

// periodPrefix begins the ID of a run of --period; the time follows at which its key was granted, by
// the database's clock.
const periodPrefix = "period "

// periodRun makes the ID of a run of --period, unless one has begun less than half a period before
// this program was started, by the database's clock. So the hosts whose clocks start this program
// for the same tick, within half a period, make one run of it, whether they wait for the key or not.
func (r *run) periodRun(ctx context.Context) error {
	lister, ok := r.store.Store.(driver.MarkLister)
	if !ok {
		return fmt.Errorf("%w: this store does not list marks, which --period needs", driver.ErrNotSupported)
	}
	ask := func(err error) error {
		return &ExitError{Code: ExitCode(err), Err: fmt.Errorf("the command was not run, because it is not known when %q ran last: %s: %w", r.key, r.store.where, err)}
	}
	infos, err := r.store.Inspect(ctx, r.keys)
	if err != nil {
		return ask(err)
	}
	granted := infos[0].Since
	for _, info := range infos { // of several keys: when the last of them was
		if info.Since.After(granted) {
			granted = info.Since
		}
	}
	if granted.IsZero() {
		return fmt.Errorf("%w: this store does not say when a key was granted, which --period needs", driver.ErrNotSupported)
	}
	waited := r.gotAt.Sub(r.began)
	marks, err := lister.Marks(ctx, r.key, 50)
	if err != nil {
		return ask(err)
	}
	last := lastBegin(marks)
	if began := granted.Add(-waited); !last.IsZero() && began.Sub(last) < time.Duration(r.f.period)/2 {
		return fmt.Errorf("%w: the last run of %q began %s earlier", errRanBefore, r.key, short(max(began.Sub(last), 0)))
	}
	r.runID = periodPrefix + granted.UTC().Format("2006-01-02T15:04:05.000000Z")
	return nil
}

// lastBegin is when the newest run began: by its ID if it is one of --period, else when it was marked.
func lastBegin(marks []driver.Mark) (last time.Time) {
	for _, m := range marks {
		at := m.At
		if text, ok := strings.CutPrefix(m.Run, periodPrefix); ok {
			if t, err := time.Parse(time.RFC3339Nano, text); err == nil {
				at = t
			}
		}
		if at.After(last) {
			last = at
		}
	}
	return last
}
