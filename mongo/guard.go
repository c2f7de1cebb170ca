package mongolock

import (
	"context"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/guards"
	"github.com/rowlock/rowlock/mongo/internal/command"
	"github.com/rowlock/rowlock/mongo/internal/document"
	"github.com/rowlock/rowlock/mongo/internal/fence"
)

// Guard makes the transaction of the session in ctx depend on lease: it cannot
// commit after a newer hold of the key was granted. The next acquire of the key
// waits until the transaction has ended, for at most as long as the server keeps
// it open (transactionLifetimeLimitSeconds, 60 s by default); the lease is renewed
// meanwhile as ever. It is one update in the transaction, at any place of it; there
// may be several, and for several leases. Those of a rowlock.Group, or any others, can be
// given together as more: all are guarded by one command, or none is.
//
// Begin the transaction after the acquire: its snapshot is made by its first
// statement, and one from before the acquire gives ErrConflict. Two in a row in one
// session give it without the driver's label, so that WithTransaction ends: a transaction
// that acquires its own lease after it has read would never succeed. Commit it with the
// write concern majority (that of the client unless options.Transaction sets one):
// with w:1 a commit that was acknowledged can be rolled back in an election, and the
// guard and the mark of a run with it.
//
// The lease must have been acquired with rowlock.Guarded(), from a Client of this
// Store, and the session must be of a client of the same cluster. A lease that was
// guarded is not handed off in memory any more. Two transactions of one lease at
// once undo each other (ErrConflict): [Store.InTx] lets them wait instead.
//
// After an error abort the transaction. Errors:
//
//   - ErrLost (a *rowlock.LostError) or ErrReleased: the lease is over. ErrLost
//     also comes when the client has not noticed yet.
//   - ErrConflict: the server has aborted the transaction because of another one,
//     or cannot be reached, or the transaction is older than the lease; run it again. The driver's error with its label
//     TransientTransactionError is wrapped, so [mongo.Session.WithTransaction] does; see above for the exception.
//   - ErrInvalid: no session in ctx, no transaction begun in it, a lease of another
//     Store, one without rowlock.Guarded(), or nil.
//   - ErrNotSupported on a standalone server, ErrClosed, ctx's or the driver's.
//
// A session is not for concurrent use, so neither is Guard with one session.
func (s *Store) Guard(ctx context.Context, lease *rowlock.Lease, more ...*rowlock.Lease) error {
	leases := guards.LeasesOf(lease, more)
	sess, err := s.joining(ctx, "guard", len(leases))
	if err != nil {
		return err
	}
	hs, err := s.guarding(leases)
	if err != nil {
		return err
	}
	return s.guard(ctx, sess, leases, hs)
}

// joining returns the session of the caller's transaction, which a call with n keys
// is about to join.
func (s *Store) joining(ctx context.Context, doing string, n int) (*mongo.Session, error) {
	if err := s.transactional(ctx, doing, n); err != nil {
		return nil, err
	}
	sess := mongo.SessionFromContext(ctx)
	if sess == nil {
		return nil, fmt.Errorf("mongo: %s: %w: no session in the context: pass the one that Session.WithTransaction hands to its function, or one of mongo.NewSessionContext", doing, driver.ErrInvalid)
	}
	if !sess.TransactionRunning() {
		return nil, fmt.Errorf("mongo: %s: %w: no transaction runs in the context's session: outside of one it would do nothing", doing, driver.ErrInvalid)
	}
	return sess, nil
}

// transactional is the beginning of every call that needs transactions.
func (s *Store) transactional(ctx context.Context, doing string, n int) error {
	if err := s.enter(ctx, doing, n); err != nil {
		return err
	}
	if s.cmd.Standalone() {
		return s.unsupported("a standalone server has no transactions, so " + doing + " is not possible: make it a replica set of one node")
	}
	return nil
}

// guarding says that the leases are about to be guarded, and returns their holds.
func (s *Store) guarding(leases guards.Leases) (guards.Holds, error) {
	hs, err := leases.Begin(s)
	if err != nil {
		return hs, fmt.Errorf("mongo: %w", err)
	}
	for _, h := range hs.All {
		if !h.Guarded {
			return hs, fmt.Errorf("mongo: guard %q: %w: acquire the lease with rowlock.Guarded(), so that the holder after it knows that there may be a transaction to wait for", h.Key, driver.ErrInvalid)
		}
	}
	return hs, nil
}

// guard writes the fences, each if it is still of its lease's grant: a read would guard
// nothing, because a snapshot shows what was, not what is.
func (s *Store) guard(ctx context.Context, sess *mongo.Session, leases guards.Leases, hs guards.Holds) error {
	what := guardOf(hs)
	matched, err := s.writeFences(ctx, sess, hs)
	if err != nil {
		return s.insideFailed(ctx, what, err)
	}
	if matched != int64(len(hs.All)) {
		outdated, old := s.behind(ctx, leases, hs)
		if old {
			return fmt.Errorf("mongo: %s: %w: %w", what, driver.ErrConflict, s.tooOld.met(sess))
		}
		return fmt.Errorf("mongo: %s: %w", what, s.outdated(ctx, leases, outdated))
	}
	s.tooOld.over(sess)
	if err := leases.Err(); err != nil { // the answer may have taken long
		return fmt.Errorf("mongo: %s: %w", what, err)
	}
	return nil
}

// guardOf names a guard in an error.
func guardOf(hs guards.Holds) string {
	if more := len(hs.All) - 1; more > 0 {
		return fmt.Sprintf("guard %q and %d more", hs.First.Key, more)
	}
	return fmt.Sprintf("guard %q", hs.First.Key)
}

// writeFences writes the fences of holds in the transaction, by one command, and returns how
// many there were.
func (s *Store) writeFences(ctx context.Context, sess *mongo.Session, hs guards.Holds) (matched int64, err error) {
	fences := s.inside(sess, s.fences)
	write := document.Op("$inc", document.Op("n", int64(1)))
	if len(hs.All) == 1 {
		reply, err := fences.UpdateOne(ctx, fence.Guard(hs.First), write)
		if err != nil {
			return 0, err
		}
		return reply.MatchedCount, nil
	}
	models := make([]mongo.WriteModel, len(hs.All))
	for i, h := range hs.All {
		models[i] = mongo.NewUpdateOneModel().SetFilter(fence.Guard(h)).SetUpdate(write)
	}
	reply, err := fences.BulkWrite(ctx, models)
	if err != nil {
		return 0, err
	}
	return reply.MatchedCount, nil
}

// behind looks for the hold whose fence a transaction did not find. old: the fences of all
// are there as the leases, which live, need them: the transaction shows what was before the
// acquire.
func (s *Store) behind(ctx context.Context, leases guards.Leases, hs guards.Holds) (outdated driver.Hold, old bool) {
	if leases.Err() != nil {
		return hs.First, false
	}
	h, missing, err := s.fence.Missing(ctx, hs.All)
	if err != nil {
		return hs.First, false
	}
	return h, !missing
}

// inside is a collection as a transaction in sess needs it: of the session's own
// client, which refuses the sessions of others.
func (s *Store) inside(sess *mongo.Session, name string) *mongo.Collection {
	s.cmd.Count()
	return command.Database(sess.Client(), s.db.Name()).Collection(name)
}

// insideFailed is fail for a statement in a transaction. The driver's label stays
// reachable, but for the end of ctx: WithTransaction would go on for two minutes.
func (s *Store) insideFailed(ctx context.Context, what string, err error) error {
	switch {
	case ctx.Err() != nil:
		if busy := s.cmd.BusyPool(err); busy != nil {
			return fmt.Errorf("mongo: %s on %s: %w: %w (%v)", what, s, ctx.Err(), busy, err)
		}
		return fmt.Errorf("mongo: %s on %s: %w (%v)", what, s, ctx.Err(), err)
	case transient(err):
		return fmt.Errorf("mongo: %s on %s: %w: %w", what, s, driver.ErrConflict, err)
	}
	return s.cmd.Fail(ctx, what, err)
}

// transient: the transaction was aborted, nothing of it can take effect any more.
func transient(err error) bool { return command.Labelled(err, transientLabel) }

const transientLabel = "TransientTransactionError"

// outdated is the error for a lease whose fence is of another token by now. The
// client may learn of it later.
func (s *Store) outdated(ctx context.Context, leases guards.Leases, h driver.Hold) error {
	if err := leases.Err(); err != nil {
		return err
	}
	status := driver.Taken
	if states, err := s.statesOf(ctx, []driver.Hold{h}, nil); err == nil {
		r, there := states[h.Key]
		status = document.Loss(r, there, h)
	}
	if status != driver.Alive {
		return guards.Lost(h, status)
	}
	return &rowlock.LostError{Key: h.Key, Token: h.Token, Reason: rowlock.ReasonRemoved,
		Err: fmt.Errorf("the fence of the key in %s was removed or changed by hand: if it is there, delete it when no guarded transaction of the key is open", s.fences)}
}
