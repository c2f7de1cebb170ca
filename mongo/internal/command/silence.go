package command

import (
	"context"
	"errors"
	"time"

	"github.com/rowlock/rowlock/internal/singleflight"
	"github.com/rowlock/rowlock/internal/work"
	"github.com/rowlock/rowlock/mongo/internal/document"
)

// A connection can die without a word: a firewall forgets it, and what is sent on it is
// lost. The pool of the driver does not notice, and keeps such connections for the next
// commands. So when a command has had no answer for longer than it may take, the Store
// asks the server on others (ask). One answer proves that the server lives: the silent
// connection is given up, and the command goes out again. Without one the command waits
// on, and the question is repeated every second.
//
// The pool hands out the connections it has before it dials, and says neither how many
// there are nor which it gives. So the question goes out on more and more of them, until
// one answers, at the latest on one that was dialled for it. Those that do not answer
// within a second are closed, which the driver does with a connection whose command is
// cancelled; nobody else has them meanwhile. All others stay as they are: no pool is
// cleared, because it is the application's.
//
// Where the questions find no server at all (a wrong address, a wrong name of the replica
// set, an election) the command ends too, with errAbsent and what the driver says: a
// caller that waits should learn it before its context ends.

const (
	// silentFor is how long an answer may be overdue. A call that has less than four
	// times as much left doubts sooner: what is left must do for another try.
	silentFor   = time.Second
	silentLeast = 50 * time.Millisecond

	// askStep is the time between two rounds of questions, of which each is twice the
	// size of the one before, askMost the number of questions, askFor how long one waits.
	askStep = 30 * time.Millisecond
	askMost = 127
	askFor  = time.Second
)

var (
	ErrSilent = errors.New("its connection gave no byte, while the server answers on another")
	errAbsent = errors.New("no server to write to can be found")
)

const absentAdvice = ": check the addresses and replicaSet of the connection string, and whether the set has a primary"

// Silent reports whether err is that of a command whose connection was given up.
func Silent(err error) bool { return errors.Is(err, ErrSilent) }

// WatchSilence is ctx for a command that the server answers, or ends, within limit. It ends
// with the cause errSilent when the connection is silent, errAbsent when there is no
// server. stop ends the watch.
func (r *Runner) WatchSilence(ctx context.Context, limit time.Duration) (watched context.Context, stop func()) {
	watched, cancel := context.WithCancelCause(ctx)
	usual := r.One.usualSingle()
	overdue := limit + max(2*usual, min(max(Left(ctx)/4, silentLeast), silentFor))
	timer := time.AfterFunc(overdue, func() {
		for watched.Err() == nil {
			if found := r.liveness.check(watched, r.ping, max(askStep, 2*usual)); found.alive {
				cancel(ErrSilent)
				return
			} else if found.absent {
				cancel(errAbsent)
				return
			}
			select {
			case <-time.After(silentFor):
			case <-watched.Done():
			}
		}
	})
	return watched, func() {
		timer.Stop()
		cancel(nil)
	}
}

// ping fails if the server does not answer, whatever it says.
func (r *Runner) ping(ctx context.Context) error {
	r.statements.Add(1)
	err := r.db.RunCommand(NoDeadline(ctx), document.Op("ping", 1)).Err()
	if Code(err) != 0 {
		return nil
	}
	return err
}

// liveness checks whether the server answers, once at a time for all commands.
type liveness struct {
	checks singleflight.Group[signs]
	life   context.Context
	end    context.CancelFunc
	work   work.Group
}

// signs are what a check has found. If both are false, it has found nothing.
type signs struct{ alive, absent bool }

func newLiveness() *liveness {
	a := &liveness{}
	a.life, a.end = context.WithCancel(context.Background())
	a.checks.Life, a.checks.Go = a.life, a.work.Go // a check ends soon, by itself
	return a
}

// check waits for the result of the check that runs, or of a new one.
func (a *liveness) check(ctx context.Context, ping func(context.Context) error, step time.Duration) signs {
	return a.checks.Do(ctx, func(ctx context.Context) (signs, error) { return a.run(ctx, ping, step), nil }).Value
}

// run makes one check.
func (a *liveness) run(ctx context.Context, ping func(context.Context) error, step time.Duration) (found signs) {
	answers := make(chan error, askMost)
	timer := time.NewTicker(step)
	defer timer.Stop()
	began := time.Now()
	for sent, size, over := 0, 1, false; !found.alive && !over; {
		for range min(size, askMost-sent) {
			sent++
			a.work.Fork(func() {
				ctx, cancel := context.WithTimeout(a.life, askFor) // it may outlast the check
				defer cancel()
				answers <- ping(ctx)
			})
		}
		size *= 2
		select {
		case err := <-answers: // an error comes after askFor, or because the connection broke
			found = signs{err == nil, absent(err)}
			over = found.absent || time.Since(began) >= askFor
		case <-timer.C:
			over = time.Since(began) >= 2*askFor
		case <-ctx.Done():
			over = true
		}
	}
	return found
}

// close ends the check that runs, and waits for its goroutines.
func (a *liveness) close() {
	idle := a.work.Close()
	a.end()
	<-idle
}
