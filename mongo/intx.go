package mongolock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/guards"
	"github.com/rowlock/rowlock/mongo/internal/command"
	"github.com/rowlock/rowlock/mongo/internal/fence"
)

const (
	// commitTry is how long one sending of a commit or an abort may take: behind a
	// connection that hangs there may be a new primary.
	commitTry = time.Second

	// Between two runs of a transaction there is a pause, at random up to these.
	firstPause = 5 * time.Millisecond
	lastPause  = 500 * time.Millisecond
)

var ownTransactions = options.Transaction().
	SetReadConcern(readconcern.Snapshot()).SetWriteConcern(writeconcern.Majority()).SetReadPreference(readpref.Primary())

// InTx runs fn in a transaction that cannot commit after a newer hold of the key
// was granted: it begins one (snapshot, majority), guards it as [Store.Guard] does,
// calls fn and commits. The lease must have been acquired with rowlock.Guarded().
//
// What fn does with the context it gets, and with collections of the client that
// the Store was made with, belongs to the transaction. That context ends with ctx
// and with the lease. fn is called again if the server aborted the transaction for
// a conflict or a lost connection (the driver's label TransientTransactionError,
// which fn passes on), until it commits or ctx or the lease ends: so what fn does
// beside the transaction must bear repeating. Any other error of fn, a panic and
// runtime.Goexit abort the transaction. fn must not commit, abort, or use the
// context in two goroutines at once.
//
// With more leases, for example those of a rowlock.Group, it guards all of them by one
// command, and what is said of the lease holds for each.
//
// The transactions of one lease run one after the other, so calls from several
// goroutines wait for each other; one inside another of the same lease is refused.
// They run in a session of the library, never in one that ctx carries. If the
// process dies inside, the next acquire of the key ends it at once.
//
// nil: committed, whatever became of the lease since. An error means that nothing
// took effect, but for ErrUnknownOutcome: the commit was sent and could not be
// settled, though it was repeated until the end of ctx or of the lease and once more
// then, for a second at most. Other errors: fn's own; ErrLost (a *rowlock.LostError), joined with fn's
// error if there is one, or ErrReleased; ErrConflict together with ctx's error or
// ErrLost, if it was aborted for a conflict until then; ErrInvalid (also if fn used a
// collection of another client, and returned the driver's error), ErrNotSupported
// (standalone server), ErrClosed or the driver's.
func (s *Store) InTx(ctx context.Context, lease *rowlock.Lease, fn func(ctx context.Context) error, more ...*rowlock.Lease) error {
	if fn == nil {
		return errNoFunction
	}
	return s.inTx(ctx, "transaction", guards.LeasesOf(lease, more), func(ctx context.Context, _ *mongo.Session, _ driver.Hold) error { return fn(ctx) })
}

var errNoFunction = fmt.Errorf("mongo: transaction: %w: the function is nil", driver.ErrInvalid)

// ownTx is one call of InTx or Once.
type ownTx struct {
	s      *Store
	what   string
	leases guards.Leases
	holds  guards.Holds
	own    *fence.Session // of the first lease: the transaction runs in it
	outer  *ownTx         // that this one is inside of
	fn     func(context.Context, *mongo.Session, driver.Hold) error
}

// ownTxKey is that of the innermost ownTx in a context.
type ownTxKey struct{}

func (s *Store) inTx(ctx context.Context, doing string, leases guards.Leases, fn func(context.Context, *mongo.Session, driver.Hold) error) error {
	if err := s.transactional(ctx, doing, len(leases)); err != nil {
		return err
	}
	hs, err := s.guarding(leases)
	if err != nil {
		return err
	}
	x := &ownTx{s: s, what: fmt.Sprintf("%s under %q", doing, hs.First.Key), leases: leases, holds: hs, own: s.txSessions.Find(hs.First.ID), fn: fn}
	if x.own == nil { // ended since, or about to: its release or a failed renewal has just passed
		return fmt.Errorf("mongo: %s: %w", x.what, s.outdated(ctx, leases, hs.First))
	}
	x.outer, _ = ctx.Value(ownTxKey{}).(*ownTx)
	if mongo.SessionFromContext(ctx) == x.own.Driver || x.insideOwn() {
		return fmt.Errorf("mongo: %s: %w: it is inside another transaction of the same lease and would wait for itself", x.what, driver.ErrInvalid)
	}
	outer := ctx
	ctx, cancel := context.WithCancel(ctx) // so that the leases forget their contexts
	defer cancel()
	ctx = context.WithValue(leases.Context(ctx), ownTxKey{}, x)
	if x.own.Lock(ctx) != nil {
		return x.ended(outer, nil)
	}
	defer x.own.Unlock()
	pause := firstPause
	for {
		err := x.run(ctx)
		if err == nil {
			return nil
		}
		if !transient(err) || errors.Is(err, driver.ErrUnknownOutcome) {
			return x.ended(outer, err)
		}
		select {
		case <-time.After(rand.N(pause)):
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			return x.ended(outer, err)
		}
		pause = min(pause*3/2, lastPause)
	}
}

// insideOwn reports whether x is inside a transaction that has written a fence of its own.
func (x *ownTx) insideOwn() bool {
	for o := x.outer; o != nil; o = o.outer {
		for _, h := range x.holds.All {
			if slices.ContainsFunc(o.holds.All, func(of driver.Hold) bool { return of.ID == h.ID }) {
				return true
			}
		}
	}
	return false
}

// run is the transaction, once.
func (x *ownTx) run(ctx context.Context) error {
	x.s.nameSession(ctx, x.own, x.holds)
	sess := x.own.Driver
	if err := sess.StartTransaction(ownTransactions); err != nil {
		return x.s.cmd.Fail(ctx, x.what, err)
	}
	committing := false
	defer func() {
		if !committing { // after an error, a panic or Goexit
			x.abort(ctx)
		}
	}()
	ctx = mongo.NewSessionContext(ctx, sess)
	if err := x.s.guard(ctx, sess, x.leases, x.holds); err != nil {
		return err
	}
	if err := x.fn(ctx, sess, x.holds.First); errors.Is(err, mongo.ErrWrongClient) {
		return fmt.Errorf("mongo: %s: %w: use collections of the client that the Store was made with: %w", x.what, driver.ErrInvalid, err)
	} else if err != nil {
		return err
	}
	if !sess.TransactionRunning() {
		return fmt.Errorf("mongo: %s: %w: the function has ended the transaction by itself", x.what, driver.ErrInvalid)
	}
	if ctx.Err() != nil { // looks at the lease and the clock: a process that was frozen sends nothing
		return fmt.Errorf("mongo: %s: %w", x.what, context.Cause(ctx))
	}
	committing = true
	return x.commit(ctx)
}

// commit sends the commit until its outcome is known, once more after the end of ctx. The
// server answers a repeat with what became of the first one: done, or a transient
// error: it never was and never will be.
func (x *ownTx) commit(ctx context.Context) error {
	for odd := 0; ; {
		last := ctx.Err() != nil
		try, stop := context.WithTimeout(context.WithoutCancel(ctx), commitTry)
		x.s.cmd.Count()
		err := x.own.Driver.CommitTransaction(try)
		stop()
		switch {
		case err == nil:
			return nil
		case neverWas(err):
			return fmt.Errorf("mongo: %s on %s: commit: %w: %w", x.what, x.s, driver.ErrConflict, err)
		case !mayPass(err):
			odd++
		}
		if last || odd == 3 {
			// For the driver it still runs, then nothing else can. If the commit has not
			// arrived, this is its end; otherwise it changes nothing.
			x.abort(ctx)
			x.resetSession()
			return fmt.Errorf("mongo: %s on %s: commit: %w: %w", x.what, x.s, driver.ErrUnknownOutcome, err)
		}
		select {
		case <-time.After(firstPause):
		case <-ctx.Done():
		}
	}
}

// resetSession makes the driver's session fit for the next transaction. A commit that
// timed out after another had failed leaves it committing, and neither abort nor begin
// ends that: each statement of the next transaction would begin it anew. One that is
// cancelled before it is sent does; were it sent, it would be the same commit again.
func (x *ownTx) resetSession() {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = x.own.Driver.CommitTransaction(ctx)
}

// neverWas: the server said of a commit that there is no such transaction, and will be none. The driver gives the same label to what it did not
// send, because its pool had just been cleared (2.9.3); that says nothing of the sending before it.
func neverWas(err error) bool { return transient(err) && command.Code(err) != 0 }

// mayPass: the answer to a commit did not come, or says that it is not known.
func mayPass(err error) bool {
	return command.Labelled(err, "UnknownTransactionCommitResult") || mongo.IsTimeout(err) || command.Repeatable(err) || command.NothingSent(err) || command.NoServer(err)
}

// abort ends the transaction, whatever became of ctx. If that fails the server ends
// it later, or the next transaction of the session, or the next holder does.
func (x *ownTx) abort(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitTry)
	defer cancel()
	x.s.cmd.Count()
	_ = x.own.Driver.AbortTransaction(ctx)
}

// ended adds to an error what the caller also wants to know: that the lease or ctx
// has ended. Where neither has, fn's own error goes as it came.
func (x *ownTx) ended(ctx context.Context, err error) error {
	over := x.leases.Err()
	if errors.Is(err, rowlock.ErrLost) || errors.Is(err, rowlock.ErrReleased) {
		over = nil
	}
	for _, end := range []error{ctx.Err(), over} {
		switch {
		case end == nil || errors.Is(err, end):
		case err == nil:
			err = fmt.Errorf("mongo: %s: %w", x.what, end)
		default:
			err = fmt.Errorf("%w: %w", err, end)
		}
	}
	return err
}

// nameSession makes the fences of the further leases of a transaction name the session in
// which it runs, beside their own: whoever finds one of them pinned by a process that died
// can end it. It is a help and no more: what cannot be written, for example because another
// transaction has written the fence, is left to the next run.
func (s *Store) nameSession(ctx context.Context, own *fence.Session, hs guards.Holds) {
	var others []driver.Hold
	for _, h := range hs.All {
		if h.ID != hs.First.ID && !own.Named(h.ID) {
			others = append(others, h)
		}
	}
	if len(others) > 0 {
		_ = s.fence.Name(ctx, others, own)
	}
}
