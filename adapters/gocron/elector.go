package gocronlock

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/go-co-op/gocron/v2"

	"github.com/rowlock/rowlock"
)

// ErrNotLeader: this process does not lead now. Another one does, or nobody.
var ErrNotLeader = errors.New("gocronlock: this process does not lead")

// Elector is for gocron.WithDistributedElector: the process that holds its key leads, and
// runs all jobs. Run stands for election. It is safe for concurrent use; one serves all
// schedulers of a process that are to lead together.
type Elector struct {
	locks rowlock.Locker
	key   string
	opts  []rowlock.Option

	mu    sync.Mutex
	runs  bool
	term  *rowlock.Lease // nil: this process does not lead
	cause error          // why Run has ended
}

var _ gocron.Elector = (*Elector)(nil)

// NewElector makes an Elector; it does no I/O and starts nothing. The key is the
// same in all processes. opts are those of [rowlock.Lead].
func NewElector(l rowlock.Locker, key string, opts ...rowlock.Option) *Elector {
	return &Elector{locks: l, key: key, opts: opts}
}

// Run stands for election until ctx ends, and again after each term that was lost: it is
// rowlock.Lead with a function that waits for the end of its term. It blocks; most programs
// call it in a goroutine of its own. When ctx ends this process resigns, and another leads at
// once: end ctx after the scheduler's Shutdown, which waits for jobs. When the leader dies
// its lease ends after its TTL (rowlock.Options, or the option rowlock.TTL), and another
// process leads.
//
// The error is that of rowlock.Lead: ctx's error, rowlock.ErrClosed after the Client's Close,
// or, until the database has answered once, one that trying again does not cure, such as
// rowlock.ErrSchema or a wrong password. The process has no part in the election then, until Run is
// called again: look at the error, because gocron drops that of IsLeader. Later Run waits out such
// errors, too, and the Logger of rowlock.Options gets a line (Error). A second Run beside a first is
// rowlock.ErrInvalid.
//
// Around a change of leaders a run of a job can be missing. It can also happen twice: the new
// leader's clock may be late, or the old one may still be at it.
func (e *Elector) Run(ctx context.Context) error {
	e.mu.Lock()
	if e.runs {
		e.mu.Unlock()
		return fmt.Errorf("gocronlock: elect %q: %w: Run runs already", e.key, rowlock.ErrInvalid)
	}
	e.runs, e.cause = true, nil
	e.mu.Unlock()
	err := rowlock.Lead(ctx, e.locks, e.key, func(ctx context.Context, term *rowlock.Lease) error {
		e.setTerm(term)
		defer e.setTerm(nil)
		<-ctx.Done()
		return ctx.Err()
	}, e.opts...)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.runs, e.cause = false, err
	return err
}

func (e *Elector) setTerm(term *rowlock.Lease) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.term = term
}

// IsLeader implements gocron.Elector: nil if this process leads. It asks the clock, and not the
// database. Otherwise the error matches ErrNotLeader, and that of Run if it has ended; while
// Run was not called nobody leads here. gocron leaves out the runs of its jobs then, and drops the error.
func (e *Elector) IsLeader(context.Context) error {
	e.mu.Lock()
	term, runs, cause := e.term, e.runs, e.cause
	e.mu.Unlock()
	switch {
	case term != nil:
		if err := term.Err(); err != nil {
			return fmt.Errorf("%w by %q: %w", ErrNotLeader, e.key, err)
		}
		return nil
	case runs:
		return fmt.Errorf("%w by %q: another may", ErrNotLeader, e.key)
	case cause != nil:
		return fmt.Errorf("%w by %q: Run has ended: %w", ErrNotLeader, e.key, cause)
	}
	return fmt.Errorf("%w by %q: Run was not called", ErrNotLeader, e.key)
}
